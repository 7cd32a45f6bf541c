"""One poisoned object among good ones: the good ones are served, in each loop over many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.app.parts import TABLE
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.decision import Decision, Facts, Patch
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.clusters.clusterqueue import queue_controller
from fournos.systems.clusters.gpus import discover, drivers
from fournos.systems.clusters.metrics import report
from fournos.systems.clusters.observe import project_node
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import HUB, NS, QUEUE, SECRETS, SETTINGS, SLOT, hub, node, quotas
from tests.unit.systems.clusters.actors import cluster as cluster_of
from tests.unit.systems.clusters.test_lifecycle import one
from tests.unit.systems.clusters.test_planner import queue
from tests.world.group import Group
from tests.world.harness import run_to_quiescence
from tests.world.server import Server

ANYTHING: tuple[Any, ...] = (None, 7, True, "text", [], ["text"], [None], {}, {"X": 1}, "1e1000", [{"X": 1}])
GPU = {"vendor": "nvidia", "model": "L40S", "shortName": "l40s", "count": 2, "nodeCount": 1}
HARDWARE = {"gpus": [GPU], "totalGPUs": 2}
SPOILED = [
    *({"hardware": value} for value in ANYTHING),
    *({"hardware": {"gpus": value}} for value in ANYTHING),
    *({"hardware": {"gpus": [GPU | {name: value}]}} for name in GPU for value in ANYTHING),
    *({"hardware": HARDWARE | {"shrinking": value}} for value in ANYTHING),
    *({name: value} for name in ("lock", "kubeconfigStatus", "runningJobs") for value in ANYTHING),
]  # fmt: skip


def cluster(name: str, **status: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": HUB, "uid": name, "resourceVersion": "1"}
    spec = {"kubeconfigSecret": f"kubeconfig-{name}"}
    return {"metadata": meta, "spec": spec, "status": {"kubeconfigStatus": "Valid", **status}}


@pytest.mark.parametrize("status", SPOILED, ids=str)
def test_a_status_of_any_shape_costs_the_others_neither_quotas_nor_metrics(status: dict[str, Any]) -> None:
    controller = queue_controller(SETTINGS)
    stores = {watch.resource: Store(project=watch.project) for watch in controller.watches}
    both = (cluster("bad", **status), cluster("good", hardware=HARDWARE))
    stores[FOURNOS_CLUSTER].replace([stores[FOURNOS_CLUSTER].slim(found) for found in both], "1")
    stores[CLUSTER_QUEUE].replace([queue()], "1")
    observed = controller.observe(Caches(stores), QUEUE)
    assert observed is not None
    decision = controller.decide(observed, Facts(), datetime(2030, 1, 1, tzinfo=UTC))
    assert isinstance(decision, Decision)
    patches = [step for step in decision.steps if isinstance(step, Patch) and step.resource is CLUSTER_QUEUE]
    (group,) = patches[0].body["spec"]["resourceGroups"]
    entry = next(entry for entry in group["flavors"] if entry["name"] == "good")
    assert {"name": "fournos/gpu-l40s", "nominalQuota": "2"} in entry["resources"]
    metrics = Metrics(TABLE)
    store = Store()
    store.replace(both, "1")
    report(Caches({FOURNOS_CLUSTER: store}), metrics)
    assert metrics.value("fournos_cluster_gpus", "good", "l40s") == 2


NODE = {**node("bad"), "metadata": {**node("bad")["metadata"], "labels": {"nvidia.com/gpu.product": "x"}}}
META = NODE["metadata"]
BAD_NODES = [
    *({**NODE, name: value} for name in ("spec", "status") for value in ANYTHING),
    *({**NODE, "metadata": {**META, "labels": value}} for value in ANYTHING),
    *({**NODE, "metadata": {**META, "labels": {"nvidia.com/gpu.product": value}}} for value in ANYTHING),
    *({**NODE, "status": {**NODE["status"], name: value}} for name in NODE["status"] for value in ANYTHING),
    *({**NODE, "status": {**NODE["status"], "allocatable": {"nvidia.com/gpu": value}}} for value in ANYTHING),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_NODES, ids=str)
def test_a_node_of_any_shape_hides_no_other(bad: dict[str, Any]) -> None:
    store = Store(project=project_node)
    store.replace([store.slim(found) for found in (bad, node("good"))], "1")
    nodes = tuple(store)
    assert ("NVIDIA-L40S", 2) in [(gpus.model, gpus.count) for gpus in discover(nodes)]
    assert isinstance(drivers(nodes), tuple)


def bad_secret(server: Server) -> None:
    meta = {
        "name": "kubeconfig-bad",
        "namespace": SECRETS,
        "labels": {"fournos.dev/cluster-kubeconfig": "true"},
    }
    server.create(SECRET, {"metadata": meta, "data": {"kubeconfig": "no base64!"}})


def bad_cluster(server: Server) -> None:
    meta = {"name": "bad", "namespace": HUB}
    spec = {"hardware": "none", "kubeconfigSecret": 7, "ttl": "for ever", "owner": ["me"], "drain": "Perhaps"}
    server.create(FOURNOS_CLUSTER, {"metadata": meta, "spec": spec})


def bad_workload(server: Server) -> None:
    server.create(
        WORKLOAD, {"metadata": {"name": "bad", "namespace": NS}, "spec": ACTOR, "status": {"admission": "x"}}
    )


def bad_flavor(server: Server) -> None:
    labels = {"app.kubernetes.io/managed-by": "hearth"}
    server.create(
        RESOURCE_FLAVOR, {"metadata": {"name": "bad", "labels": labels}, "spec": {"nodeTaints": None}}
    )


ACTOR = {"cluster": "c1", "slots": 1000, "priority": 0}
"""What the played Kueue reads: it never fits."""


@pytest.mark.parametrize("poison", [bad_secret, bad_cluster, bad_workload, bad_flavor])
@pytest.mark.parametrize("first", [True, False])
async def test_a_cluster_is_found_beside_it(poison: Callable[[Server], None], first: bool) -> None:
    server = Server()
    hub(server)
    for setup in (poison, one) if first else (one, poison):
        setup(server)
    group = Group(server, actors.controllers())
    await run_to_quiescence(group, [actors.kueue], horizon=300.0)
    assert cluster_of(server)["status"]["kubeconfigStatus"] == "Valid"
    assert quotas(server)["c1"] == {SLOT: 100, "fournos/gpu-l40s": 2}
    assert server.find(FOURNOS_CLUSTER, Key(HUB, "c1")) is not None
