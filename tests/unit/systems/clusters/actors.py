"""Other clusters, Kueue and the job system, played for tests of the cluster system in the in-memory world."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import NODE, SECRET, Key, Obj, Resource, key_of, owner_reference
from fournos.engine.kube.store import Store
from fournos.engine.kube.untrusted_kubeconfig import KubeconfigRefusedError
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.systems.clusters.part import cluster_controllers
from fournos.systems.clusters.settings import ClusterSettings
from tests.world.kueue import ADMITTED
from tests.world.server import Server
from tests.world.status import set_conditions

SETTINGS = ClusterSettings(gpu_discovery_default_interval_sec=36_000)
HUB, SECRETS, NS = SETTINGS.namespace, SETTINGS.secrets_namespace, SETTINGS.execution_namespace
SLOT = "fournos/cluster-slot"
QUEUE = Key("", "fournos-queue")
TARGET = Resource("test", "v1", "Target", "targets", namespaced=False)
"""Another cluster, as an object of the in-memory world: spec.nodes, spec.down."""


@dataclass(frozen=True)
class Verdict:
    reachable: bool
    version: str = "v1.34.4"
    latency_ms: float = 4.0
    certificate_expires: datetime | None = None
    reason: str = ""
    error: str = ""
    unreachable_since: datetime | None = None


@dataclass
class FakeFleet:
    """Connections of one life of the process: a new one, seen by its caches, has none."""

    caches: Caches | None = None
    connected: dict[str, str] = field(default_factory=dict)

    def life(self, caches: Caches) -> None:
        if caches is not self.caches:
            self.caches = caches
            self.connected = {}

    def connect(
        self, name: str, kubeconfig: bytes, *, version: str, unreachable_since: datetime | None = None
    ) -> None:
        if b"exec" in kubeconfig:
            self.connected.pop(name, None)
            raise KubeconfigRefusedError("ExecNotAllowed", "kubeconfig: the user runs a program (exec)")
        self.connected[name] = version

    def disconnect(self, name: str) -> None:
        self.connected.pop(name, None)

    def version_of(self, name: str) -> str | None:
        return self.connected.get(name)

    def _target(self, name: str) -> Obj | None:
        assert self.caches is not None
        return self.caches[TARGET].get(Key("", name)) if name in self.connected else None

    def probe(self, name: str) -> Verdict | None:
        if name not in self.connected:
            return None
        target = self._target(name)
        if target is None or target["spec"].get("down"):
            reason = target["spec"]["down"] if target else "ConnectionRefused"
            return Verdict(False, reason=reason, error=f"{name} cannot be reached")
        return Verdict(True)

    def store(self, name: str, resource: Resource) -> Store | None:
        assert resource is NODE
        target = self._target(name)
        if target is None:
            return None
        store = Store()
        store.replace(target["spec"]["nodes"], "1")
        return store

    def watch_error(self, name: str, resource: Resource) -> KubeError | None:
        return None


def controllers(settings: ClusterSettings = SETTINGS) -> list[Controller[Any]]:
    """The three systems, that of the FournosClusters first; it sees the other clusters as objects."""
    fleet = FakeFleet()
    secrets, clusters, queue = cluster_controllers(settings, fleet)

    def observe(caches: Caches, key: Key) -> Any:
        fleet.life(caches)
        return clusters.observe(caches, key)

    target = Watch(TARGET, wakes=lambda obj, caches: (Key(settings.namespace, obj["metadata"]["name"]),))
    return [replace(clusters, watches=(*clusters.watches, target), observe=observe), secrets, queue]


# --- others at work ----------------------------------------------------------------------------------


def jobs_at_work(server: Server) -> None:
    """The job system: a Workload for each FournosJob; its phase follows."""
    for job in server.list(FOURNOS_JOB, namespace=NS):
        key, status = key_of(job), job.get("status") or {}
        workload = server.find(WORKLOAD, key)
        if (
            workload is not None
            and workload["metadata"]["ownerReferences"][0]["uid"] != job["metadata"]["uid"]
        ):
            continue
        if status.get("phase") in ("Stopped", "Succeeded"):
            if workload is not None:
                server.delete(WORKLOAD, key)
        elif job["spec"].get("shutdown"):
            server.patch(FOURNOS_JOB, key, {"status": {"phase": "Stopped"}}, subresource="status")
        elif workload is None:
            _queue(server, job)
        elif is_true(workload, "Admitted") and status.get("phase") != "Running":
            cluster = workload["status"]["admission"]["podSetAssignments"][0]["flavors"][SLOT]
            wanted = {"phase": "Admitted" if job["spec"].get("lockOnly") else "Running", "cluster": cluster}
            if wanted.items() - status.items():
                server.patch(FOURNOS_JOB, key, {"status": wanted}, subresource="status")


def _queue(server: Server, job: Any) -> None:
    spec = job["spec"]
    whole = spec.get("lockOnly") or spec.get("exclusive", True)
    pod: dict[str, Any] = {"slots": 100 if whole else 1, "cluster": spec["cluster"]}
    if spec.get("lockOnly"):
        pod["tolerates"] = True
    owners = [owner_reference(FOURNOS_JOB, job)]
    meta = {"name": job["metadata"]["name"], "namespace": NS, "ownerReferences": owners}
    whole = {**pod, "priority": -1_000_000_000 if spec.get("lockOnly") else 0}
    server.create(WORKLOAD, {"metadata": meta, "spec": whole})
    server.patch(FOURNOS_JOB, key_of(job), {"status": {"phase": "Pending"}}, subresource="status")


def kueue(server: Server) -> None:
    """Admits what fits, by priority; taints keep away who does not tolerate them; never preempts."""
    queue = server.find(CLUSTER_QUEUE, QUEUE)
    if queue is None:
        return
    free = {
        entry["name"]: int(quota["nominalQuota"])
        for group in queue["spec"].get("resourceGroups") or ()
        for entry in group["flavors"]
        for quota in entry["resources"]
        if quota["name"] == SLOT
    }
    workloads = server.list(WORKLOAD, namespace=NS)
    used: dict[str, int] = {}
    for workload in workloads:
        if is_true(workload, "Admitted"):
            used[workload["spec"]["cluster"]] = (
                used.get(workload["spec"]["cluster"], 0) + workload["spec"]["slots"]
            )
    for workload in sorted(workloads, key=lambda w: -w["spec"]["priority"]):
        spec, cluster = workload["spec"], workload["spec"]["cluster"]
        flavor = server.find(RESOURCE_FLAVOR, Key("", cluster))
        tainted = flavor is None or (bool(flavor["spec"].get("nodeTaints")) and not spec.get("tolerates"))
        if is_true(workload, "Admitted") or tainted:
            continue
        if free.get(cluster, 0) - used.get(cluster, 0) >= spec["slots"]:
            used[cluster] = used.get(cluster, 0) + spec["slots"]
            assignment = {"name": "launcher", "flavors": {SLOT: cluster}}
            admission = {"clusterQueue": "fournos-queue", "podSetAssignments": [assignment]}
            set_conditions(server, WORKLOAD, workload, *ADMITTED[:2], admission=admission)
    reservation = [
        {"name": name, "resources": [{"name": SLOT, "total": str(total)}]}
        for name, total in sorted(used.items())
    ]
    if (queue.get("status") or {}).get("flavorsReservation", []) != reservation:
        status = {"flavorsReservation": reservation}
        server.patch(CLUSTER_QUEUE, QUEUE, {"status": status}, subresource="status")


# --- what people do ----------------------------------------------------------------------------------


def node(name: str = "n1", product: str = "NVIDIA-L40S", count: int = 2, **spec: Any) -> dict[str, Any]:
    vendor = "amd" if product.startswith("AMD") else "nvidia"
    label = "amd.com/gpu.product-name" if vendor == "amd" else "nvidia.com/gpu.product"
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {label: product}},
        "spec": spec,
        "status": {
            "allocatable": {f"{vendor}.com/gpu": str(count)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def target(server: Server, name: str, *nodes: dict[str, Any], down: str = "") -> None:
    spec: dict[str, Any] = {"nodes": list(nodes), "down": down}
    if server.find(TARGET, Key("", name)) is None:
        server.create(TARGET, {"metadata": {"name": name}, "spec": spec})
    else:
        server.patch(TARGET, Key("", name), {"spec": spec})


def secret(
    server: Server, name: str, *, content: str = "token", namespace: str = SECRETS, **annotations: str
) -> None:
    meta = {
        "name": f"kubeconfig-{name}",
        "namespace": namespace,
        "labels": {"fournos.dev/cluster-kubeconfig": "true"},
        "annotations": {key.replace("__", "/"): value for key, value in annotations.items()},
    }
    data = {"kubeconfig": base64.b64encode(content.encode()).decode()}
    server.create(SECRET, {"metadata": meta, "data": data})


def hub(server: Server, queue: str = QUEUE.name) -> None:
    """A ClusterQueue with a flavor that people made."""
    server.create(RESOURCE_FLAVOR, {"metadata": {"name": "mine"}, "spec": {}})
    quota = [{"name": SLOT, "nominalQuota": 7}]
    group = {"coveredResources": [SLOT], "flavors": [{"name": "mine", "resources": quota}]}
    server.create(CLUSTER_QUEUE, {"metadata": {"name": queue}, "spec": {"resourceGroups": [group]}})


def submit(server: Server, name: str, cluster: str = "c1", *, exclusive: bool = False) -> None:
    meta = {"name": name, "namespace": NS}
    server.create(FOURNOS_JOB, {"metadata": meta, "spec": {"cluster": cluster, "exclusive": exclusive}})


def finish(server: Server, name: str) -> None:
    server.patch(FOURNOS_JOB, Key(NS, name), {"status": {"phase": "Succeeded"}}, subresource="status")


def foreign(server: Server, name: str = "test-blocked-job", cluster: str = "c1") -> None:
    """Creates a Workload without a FournosJob, as in the Hearth README."""
    meta = {"name": name, "namespace": NS}
    server.create(WORKLOAD, {"metadata": meta, "spec": {"cluster": cluster, "slots": 1, "priority": 0}})


def edit(server: Server, name: str = "c1", **spec: Any) -> None:
    server.patch(FOURNOS_CLUSTER, Key(HUB, name), {"spec": spec})


def cluster(server: Server, name: str = "c1") -> Any:
    return server.get(FOURNOS_CLUSTER, Key(HUB, name))


def condition_of(server: Server, type_: str, name: str = "c1") -> tuple[str, str]:
    found = condition(cluster(server, name), type_) or {}
    return str(found.get("status") or ""), str(found.get("reason") or "")


def quotas(server: Server, queue: str = QUEUE.name) -> dict[str, dict[str, int]]:
    return {
        entry["name"]: {quota["name"]: int(quota["nominalQuota"]) for quota in entry["resources"]}
        for group in server.get(CLUSTER_QUEUE, Key("", queue))["spec"]["resourceGroups"]
        for entry in group["flavors"]
    }


# --- cases ---------------------------------------------------------------------------------------------
# What each rule of a FournosCluster refuses, for the check in Python and for a real API server.


def made(name: str = "c1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosCluster",
        "metadata": {"name": name},
        "spec": {"kubeconfigSecret": f"kubeconfig-{name}"[:60], **spec},
    }


CREATIONS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("name-length", made("n" * 43), made("n" * 42)),
    (
        "kubeconfigsecret-text",
        made(kubeconfigSecret="Not_a_name"),
        made(kubeconfigSecret="a.b-c"),
    ),
    ("kubeconfigsecret-text", made(kubeconfigSecret=""), made()),
    ("ttl-text", made(ttl="1w"), made(ttl="7d")),
    ("ttl-text", made(ttl="1h30m"), made(ttl="90m")),
    ("ttl-text", made(ttl="-1m"), made(ttl="")),
    ("owner-plain", made(owner="\x1b]52;c;ZXZpbA==\x07"), made(owner="Zoë")),
    ("owner-plain", made(owner="a\x7f"), made(owner="a b")),
    (
        "gpudiscoveryinterval-text",
        made(gpuDiscoveryInterval="30s"),
        made(gpuDiscoveryInterval="1m"),
    ),
    (
        "gpudiscoveryinterval-text",
        made(gpuDiscoveryInterval="0m"),
        made(gpuDiscoveryInterval="10m"),
    ),
)
"""Rule, a spec that breaks it, one that does not."""
