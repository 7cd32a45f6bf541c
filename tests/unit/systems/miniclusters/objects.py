"""MiniClusters for tests, and what is made of them."""

from __future__ import annotations

from typing import Any, Final

from fournos.api.minicluster import DEFINITION
from fournos.engine.api.crd import Schema, schema
from fournos.systems.miniclusters import build
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.spec import Cluster, cluster_of

SETTINGS = MiniClusterSettings()
HELLO = {"image": "ubuntu:noble", "command": "echo hello world"}


def minicluster(
    container: dict[str, Any] | None = None, *, status: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """Returns a MiniCluster with one container that prints hello, with the given changes."""
    spec.setdefault("containers", [{**HELLO, **(container or {})}])
    found: dict[str, Any] = {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": "flux-sample", "namespace": "ns", "uid": "uid-1"},
        "spec": spec,
    }
    return found | ({"status": status} if status else {})


def cluster(container: dict[str, Any] | None = None, **spec: Any) -> Cluster:
    return cluster_of(minicluster(container, **spec), SETTINGS)


def made(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, dict[str, Any]]:
    """The objects by kind and name, such as "Job/flux-sample"."""
    objects = build.wanted(minicluster(container, **spec), SETTINGS)
    return {f"{one['kind']}/{one['metadata']['name']}": dict(one) for one in objects}


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """The pod spec of the Job."""
    found: dict[str, Any] = made(container, **spec)["Job/flux-sample"]["spec"]["template"]["spec"]
    return found


def scripts(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, str]:
    """The data of the entrypoint ConfigMap."""
    found: dict[str, str] = made(container, **spec)["ConfigMap/flux-sample-entrypoint"]["data"]
    return found


def runner(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = pod(container, **spec)["containers"][0]
    return found


def mounts(container: dict[str, Any]) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


# --- every field once ----------------------------------------------------------------------------------
# A MiniCluster with every field once, filled from the models.

_ALONE: Final = frozenset({"connextTimeout", "leadBroker", "fluxuser", "preWorker", "preBroker", "hostlist"})
"""Second spellings, and what excludes others."""
_SPEC: Final[dict[str, Any]] = {
    "size": 2,
    "maxSize": 4,
    "minSize": 1,
    "managedBy": "a.b/c",
    "suspend": True,
    "mountPath": "/mnt/other",
    "batch": False,
    "batchRaw": False,
    "script": None,
}
"""Values that the rules, or Kubernetes, want so; None leaves the field out."""


def _fill(node: Schema, name: str) -> Any:
    if name in _SPEC:
        return _SPEC[name]
    if "enum" in node:
        return node["enum"][-1]
    if node.get("x-kubernetes-int-or-string"):
        return 3
    match node["type"]:
        case "object" if "properties" in node:
            return _object(node)
        case "object":
            return {"a": _fill(node["additionalProperties"], "")}
        case "array":
            return [_fill(node["items"], "")]
        case "integer":
            return 7
        case "boolean":
            return True
        case _:
            return f"a-{name.lower()}"


def _object(node: Schema) -> dict[str, Any]:
    filled = {name: _fill(child, name) for name, child in node["properties"].items() if name not in _ALONE}
    return {name: value for name, value in filled.items() if value is not None}


EVERYTHING: Final[dict[str, Any]] = _object(schema(DEFINITION.model)["properties"]["spec"])
for _service in EVERYTHING["services"]:
    for _hook in ("pre", "workerPre", "brokerPre"):
        del _service["commands"][_hook]

SPELT_OTHERWISE: Final[dict[str, Any]] = {
    "size": 1,
    "tasks": 1,
    "deadlineSeconds": 60,
    "containers": [
        {
            "image": "ubuntu",
            "fluxuser": {"uid": 1002, "name": "flux"},
            "commands": {"preWorker": "a", "preBroker": "b", "script": "c"},
        }
    ],
    "flux": {
        "connextTimeout": "",
        "leadBroker": {"name": "flux-sample", "address": "24.123.50.123", "port": 30093, "hostlist": "a"},
    },
}
"""Fields that EVERYTHING has under other names."""


# --- a broad table -------------------------------------------------------------------------------------
# A broad table of MiniClusters: each mode, each volume, each option at least once.

_SIDE: Final = {"name": "side", "image": "nginx"}
_RUNS: Final = {**HELLO, "runFlux": True}
_HOOKS: Final = {
    "init": "export LD_LIBRARY_PATH=/opt/conda/lib",
    "pre": "# Commands that might print\necho pre\nls /",
    "workerPre": "echo worker",
    "brokerPre": "echo broker",
    "post": "echo 'Finishing up...'",
    "prefix": "fusion",
}
_VOLUMES: Final[dict[str, Any]] = {
    "data": {"path": "/data", "hostPath": "/data"},
    "claim": {"path": "/workflow", "claimName": "data", "readOnly": True},
    "certs": {"path": "/etc/certs", "secretName": "certs"},
    "conf": {"path": "/etc/conf", "configMapName": "nginx-conf", "items": {"flux.conf": "flux.conf"}},
    "memory": {"emptyDir": True, "emptyDirMedium": "memory", "emptyDirSizeLimit": "64Gi"},
    "scratch": {"emptyDir": True, "path": "/scratch"},
    "bucket": {"path": "/bucket", "csiDriver": "csi.example.com", "csiDriverAttributes": {"bucket": "b"}},
}
_POD: Final[dict[str, Any]] = {
    "labels": {"pod-attribute-a": "dinosaur-a", "namespace": "mine"},
    "annotations": {"pod-annotation-a": "dinosaur-a"},
    "restartPolicy": "OnFailure",
    "serviceAccountName": "my-service-account",
    "automountServiceAccountToken": False,
    "schedulerName": "fluence",
    "nodeSelector": {"iam.gke.io/gke-metadata-server-enabled": "true"},
    "nodeAffinity": {"kubernetes.io/arch": ["amd64", "arm64"]},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "dnsPolicy": "Default",
    "hostIPC": True,
    "hostPID": True,
    "resources": {"memory": "500M", "cpu": 4, "gpu-vendor.example/example-gpu": 1},
    "securityContext": {"fsGroup": 100, "runAsUser": 1000},
}
_LEAD: Final = {"name": "other", "address": "24.123.50.123", "port": 30093, "size": 4}

TABLE: Final[dict[str, dict[str, Any]]] = {
    "hello": minicluster(size=4, tasks=4, logging={"quiet": True}),
    "hooks": minicluster({"commands": _HOOKS, "preCommand": 'asFlux="env A=1"'}, size=2),
    "quiet hooks": minicluster({"commands": _HOOKS}, size=2, logging={"quiet": True, "strict": False}),
    "launcher": minicluster({"launcher": True, "command": "python3 -m snakemake"}),
    "batch": minicluster({"batch": True, "command": "echo 1\necho 2\n", "logs": "/tmp/another-out"}),
    "raw batch": minicluster({"batch": True, "batchRaw": True, "command": "flux queue idle"}),
    "script": minicluster(
        {"command": None, "commands": {"script": '#!/bin/bash\necho "\\${FLUX_TASK_RANK}"'}}
    ),
    "interactive": minicluster({"command": None}, size=2, maxSize=10),
    "diagnostics": minicluster({"diagnostics": True, "cores": 4}),
    "user": minicluster({"fluxUser": {"uid": 1002, "name": "flux"}}, flux={"container": {"disable": True}}),
    "root": minicluster({"commands": {"runFluxAsRoot": True}}),
    "timed": minicluster(size=2, logging={"timed": True, "debug": True, "zeromq": True}),
    "options": minicluster(
        size=2,
        minSize=1,
        backoffLimit=3,
        archive={"path": "/state/archive.tar.gz"},
        shareProcessNamespace=True,
        jobLabels={"kueue.x-k8s.io/queue-name": "user-queue"},
        network={"disableAffinity": True, "headlessName": "my-network"},
        flux={
            "optionFlags": "-ompi=openmpi@5",
            "wrap": "strace,-e,network,-tt",
            "topology": "kary:1",
            "connectTimeout": "",
            "scheduler": {"queuePolicy": "easy", "simple": True},
            "minimalService": True,
            "completeWorkers": True,
            "disableSocket": True,
            "mungeSecret": "munge",
            "environment": {"A": "it's b"},
            "container": {
                "image": "view:1",
                "pythonPath": "/p",
                "mountPath": "/mnt/other",
                "pullAlways": True,
            },
        },
    ),
    "bursting": minicluster(size=4, flux={"bursting": {"clusters": [{"size": 4}, {"name": "burst-b"}]}}),
    "bursted": minicluster({"command": None}, flux={"leadBroker": _LEAD, "bursting": {"clusters": [{}]}}),
    "hostlist": minicluster(flux={"leadBroker": {**_LEAD, "hostlist": "24.123.50.123,gffw-[001-003]"}}),
    "sidecars": minicluster(
        containers=[
            _RUNS,
            {**_SIDE, "ports": [80, 443], "volumes": {"data": {"path": "/d", "claimName": "other"}}},
            {**_SIDE, "name": "wrapped", "command": "echo $fluxsocket && sleep 5"},
            {**_SIDE, "name": "bare", "noWrapEntrypoint": True, "imagePullSecret": "pull"},
        ],
        flux={"container": {"imagePullSecret": "view-pull"}},
    ),
    "services": minicluster(
        services=[
            {
                **_SIDE,
                "ports": [80],
                "volumes": {"conf": _VOLUMES["conf"]},
                "command": "nginx",
                "commands": {"init": "A=1"},
            }
        ]
    ),
    "volumes": minicluster({"volumes": _VOLUMES}),
    "container": minicluster(
        {
            "workingDir": "/home",
            "environment": {"A": "b"},
            "secrets": {"TOKEN": {"name": "secret", "key": "token"}},
            "ports": [5000],
            "imagePullSecret": "flux-image-secret",
            "pullAlways": True,
            "lifeCycle": {"postStartExec": "echo a b", "preStopExec": "echo c"},
            "resources": {"limits": {"memory": "500M", "cpu": 4}, "requests": {"cpu": "2"}},
            "securityContext": {"privileged": True, "addCapabilities": ["SYS_PTRACE"]},
        },
        pod={"resources": {"memory": "2G", "gpu-vendor.example/example-gpu": 1}},
    ),
    "pod": minicluster(pod=_POD, services=[_SIDE]),
}
