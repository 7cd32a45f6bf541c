"""A broad table of MiniClusters: each mode, each volume, each option at least once."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.systems.miniclusters.objects import HELLO, minicluster

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
