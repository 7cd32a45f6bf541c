"""What a pass reads, what wakes it, and that reading changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Key
from fournos.engine.kube.store import Store
from fournos.engine.queueing.workload import RESOURCE_FLAVOR
from fournos.engine.runtime.controller import Caches, Watch
from fournos.engine.runtime.decision import Facts
from fournos.systems.clusters.build import Disconnect
from fournos.systems.clusters.clusterqueue import queue_controller
from fournos.systems.clusters.decide import decide
from fournos.systems.clusters.observe import Observer, watches
from fournos.systems.clusters.status import DeletedCluster
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import HUB, SETTINGS, FakeFleet, cluster, hub
from tests.world.group import Group
from tests.world.harness import run_to_quiescence
from tests.world.server import Server

C1 = Key(HUB, "c1")


def watch_of(all_watches: tuple[Watch, ...], resource: Any) -> Watch:
    (found,) = (watch for watch in all_watches if watch.resource == resource)
    return found


def caches(*clusters: Any) -> Caches:
    stores = {w.resource: Store(project=w.project, indexes=w.indexes) for w in watches(SETTINGS)}
    stores[FOURNOS_CLUSTER].replace(clusters, "1")
    return Caches(stores)


def named(name: str, **parts: Any) -> Any:
    return {"metadata": {"namespace": HUB, "name": name, "uid": name, "resourceVersion": "1"}, **parts}


def test_observation_drops_no_connection() -> None:
    fleet = FakeFleet(connected={"c1": "s/7"})
    seen = Observer(SETTINGS, fleet)(caches(), C1)
    assert seen == DeletedCluster(C1) and fleet.connected == {"c1": "s/7"}
    decision = decide(seen, Facts(), datetime(2030, 1, 1, tzinfo=UTC), settings=SETTINGS)
    assert decision.steps == (Disconnect("c1"),) and decision.status is None
    assert Observer(SETTINGS, FakeFleet())(caches(), C1) is None


def test_a_flavor_concerns_the_cluster_of_its_name_alone() -> None:
    found = caches(*(named(f"c{n}") for n in range(50)))
    flavor = {"metadata": {"name": "c1"}}
    assert tuple(watch_of(watches(SETTINGS), RESOURCE_FLAVOR).wakes(flavor, found)) == (C1,)


def test_what_quotas_do_not_depend_on_makes_no_new_plan() -> None:
    project = watch_of(queue_controller(SETTINGS).watches, FOURNOS_CLUSTER).project
    assert project is not None
    gpu = {"vendor": "nvidia", "model": "L40S", "shortName": "l40s", "count": 2, "nodeCount": 1}
    hardware = {"gpus": [gpu], "lastDiscovery": "a"}
    status = {"kubeconfigStatus": "Valid", "runningJobs": 1, "hardware": hardware}
    before = project(named("c1", spec={"kubeconfigSecret": "s"}, status=status))
    again = {**status, "runningJobs": 7, "hardware": {"gpus": [gpu], "lastDiscovery": "b"}}
    assert project(named("c1", spec={"kubeconfigSecret": "s", "ttl": "1h"}, status=again)) == before
    fewer = {**status, "hardware": {"gpus": [{**gpu, "count": 1}]}}
    assert project(named("c1", spec={}, status=fewer)) != before


async def test_a_cluster_without_a_spec_reports_what_it_lacks_and_can_be_deleted() -> None:
    server = Server()
    hub(server)
    meta = {"name": "c1", "namespace": HUB, "labels": {"fournos.dev/auto-discovered": "true"}}
    server.create(FOURNOS_CLUSTER, {"metadata": meta})
    group = Group(server, actors.controllers())
    await run_to_quiescence(group, [actors.kueue], horizon=300.0)
    found = cluster(server)
    assert found["status"]["kubeconfigStatus"] == "Missing"
    shown = condition(found, "KubeconfigValid") or {}
    assert shown["message"].startswith("spec.kubeconfigSecret is not set")
    server.delete(FOURNOS_CLUSTER, C1)
    await run_to_quiescence(group, [actors.kueue], horizon=300.0)
    assert server.find(FOURNOS_CLUSTER, C1) is None
