"""The decision for a FournosCluster: its connection, its messages, and what it sees."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.fournoscluster import FournosClusterSpec
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.controller import Caches, Watch
from fournos.engine.runtime.decision import Decision, Facts
from fournos.systems.clusters.build import Connect, Disconnect
from fournos.systems.clusters.clusterqueue import queue_controller
from fournos.systems.clusters.decide import decide
from fournos.systems.clusters.observe import Observer, watches
from fournos.systems.clusters.status import DeletedCluster, Observed
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import (
    HUB,
    NS,
    QUEUE,
    SECRETS,
    SETTINGS,
    SLOT,
    FakeFleet,
    Verdict,
    cluster,
    condition_of,
    edit,
    foreign,
    hub,
    node,
    quotas,
    target,
)
from tests.unit.systems.clusters.test_lifecycle import FOREIGN, LOCK, deleted, one, owned, scenario
from tests.world.group import Group
from tests.world.harness import Scenario, in_order, run, run_to_quiescence
from tests.world.server import Server

START = datetime(2030, 1, 1, tzinfo=UTC)
SECRET: dict[str, Any] = {
    "metadata": {"name": "kubeconfig-c1", "namespace": SECRETS, "uid": "s", "resourceVersion": "7"},
    "hasKubeconfig": True,
}
SPEC = {"kubeconfigSecret": "kubeconfig-c1"}
SEEN = Observed(
    Key(HUB, "c1"),
    {
        "metadata": {
            "name": "c1",
            "namespace": HUB,
            "uid": "u",
            "resourceVersion": "1",
            "finalizers": ["fournos.dev/cluster"],
        },
        "spec": SPEC,
    },
    FournosClusterSpec.model_validate(SPEC),
    secret=SECRET,
    connected="s/7",
    nodes=(),
)
SOON = START + timedelta(days=3)
REVOKED = Verdict(False, reason="Unauthorized", error="it refused the credentials")


def passes(seen: Observed, times: int = 1) -> tuple[Observed, Decision]:
    """The cluster with the status that so many passes have written, and the last pass."""
    for _ in range(times):
        decision = decide(seen, Facts(), START, settings=SETTINGS)
        assert isinstance(decision, Decision)
        seen = replace(seen, cluster={**seen.cluster, "status": decision.status})
    return seen, decision


def connection_of(seen: Observed) -> tuple[str, str]:
    found = condition(seen.cluster, "KubeconfigValid") or {}
    return found["status"], found["reason"]


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (Verdict(True), ("True", "Accepted")),
        (Verdict(True, certificate_expires=SOON), ("True", "ExpiresSoon")),
        (Verdict(True, certificate_expires=START + timedelta(days=99)), ("True", "Accepted")),
        (Verdict(False, reason="Timeout", error="no answer"), ("True", "Accepted")),
        (REVOKED, ("False", "Unauthorized")),
    ],
)
def test_each_event_is_recorded_once(probe: Verdict, expected: tuple[str, str]) -> None:
    seen, first = passes(replace(SEEN, probe=probe))
    assert connection_of(seen) == expected
    assert [note.reason for note in first.events].count(expected[1]) >= 1
    seen, second = passes(seen)
    assert connection_of(seen) == expected and second.events == ()


def test_after_a_restart_what_was_found_stands_until_the_next_probe_and_it_is_probed() -> None:
    for probe in (REVOKED, Verdict(True, certificate_expires=SOON)):
        before, _ = passes(replace(SEEN, probe=probe))
        after, decision = passes(replace(before, connected=None, probe=None))
        assert connection_of(after) == connection_of(before)
        assert any(isinstance(step, Connect) for step in decision.steps)


def test_another_kubeconfig_is_judged_anew() -> None:
    before, _ = passes(replace(SEEN, probe=REVOKED))
    secret = {**SECRET, "metadata": {**SECRET["metadata"], "resourceVersion": "8"}}
    after, _ = passes(replace(before, secret=secret))
    assert is_true(after.cluster, "KubeconfigValid")


# --- status messages -----------------------------------------------------------------------------------
# The status of a FournosCluster: its draft, and the messages where something around it is missing.


def message(server: Server, type_: str) -> str:
    (found,) = [c for c in cluster(server)["status"]["conditions"] if c["type"] == type_]
    return str(found["message"])


async def test_without_a_clusterqueue_its_name_and_setting_are_named() -> None:
    first, *others = actors.controllers()
    server = (await run(Scenario(first, one, others=others, horizon=100.0))).server
    assert server.find(CLUSTER_QUEUE, QUEUE) is None
    assert condition_of(server, "QuotaSynced") == ("False", "NoClusterQueue")
    assert message(server, "QuotaSynced") == (
        "there is no ClusterQueue fournos-queue to give it quota (HEARTH_KUEUE_CLUSTER_QUEUE_NAME)"
    )


async def test_a_lock_without_an_operator_of_jobs_reports_it() -> None:
    first, *others = actors.controllers()
    script = (lambda server: edit(server, owner="ann"),)
    story = Scenario(
        first, in_order(hub, one), others=others, actors=[actors.kueue], script=script, horizon=100.0
    )
    server = (await run(story)).server
    assert condition_of(server, "Locked") == ("False", "Requested")
    expected = "waits for an operator of FournosJobs to queue psap-automation/cluster-lock-c1"
    assert message(server, "Locked") == expected


NOW = datetime(2026, 3, 1, tzinfo=UTC)


# --- observe -------------------------------------------------------------------------------------------
# What a pass reads, what wakes it, and that reading changes nothing.

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


# --- foreign -------------------------------------------------------------------------------------------
# What uses a cluster beside plain jobs: Workloads without a FournosJob, jobs with a lock's label or name.
#
# The former are observed, reported, waited for, and never changed; the latter are running jobs.


async def test_a_foreign_workload_keeps_a_deleted_cluster_and_is_named_and_left_alone() -> None:
    server = (await run(scenario(one, foreign, owned(drain="Stop"), deleted))).server
    assert is_true(server.get(WORKLOAD, FOREIGN), "Admitted")
    assert cluster(server)["status"]["decommission"] == "Draining" and "c1" in quotas(server)
    assert condition_of(server, "Draining") == ("True", "Waiting")
    (shown,) = [c for c in cluster(server)["status"]["conditions"] if c["type"] == "Draining"]
    assert shown["message"].endswith("end or delete them: test-blocked-job")


async def test_quota_that_kueue_counts_for_another_namespace_keeps_a_deleted_cluster() -> None:
    def used(server: Server) -> None:
        """Kueue counts a Workload in a namespace that is not watched."""
        reserved = [{"name": "c1", "resources": [{"name": SLOT, "total": "1"}]}]
        status = {"flavorsReservation": reserved}
        server.patch(CLUSTER_QUEUE, QUEUE, {"status": status}, subresource="status")

    first, *others = actors.controllers()
    story = Scenario(first, in_order(hub, one), others=others, script=(used, deleted), horizon=300.0)
    server = (await run(story)).server
    assert cluster(server)["status"]["decommission"] == "Draining" and "c1" in quotas(server)
    assert condition_of(server, "QuotaSynced") == ("False", "InUse")


async def test_a_lock_behind_a_foreign_workload_names_it() -> None:
    server = (await run(scenario(one, foreign, owned(owner="ann")))).server
    assert cluster(server)["status"]["lock"]["behind"] == ["workload/test-blocked-job"]
    assert cluster(server)["status"]["runningJobs"] == 1


LABEL = {"fournos.dev/cluster-lock": "c1"}


def labelled(name: str, **spec: Any) -> Any:
    def setup(server: Server) -> None:
        meta = {"name": name, "namespace": NS, "labels": LABEL}
        whole = {"cluster": "c1", "exclusive": True, "executionEngine": {"forge": {}}, **spec}
        server.create(FOURNOS_JOB, {"metadata": meta, "spec": whole})

    return setup


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("job-1", {}),
        (LOCK.name, {}),
        ("job-1", {"lockOnly": True}),
    ],
)
async def test_a_drain_waits_for_it(name: str, spec: dict[str, Any]) -> None:
    server = (await run(scenario(one, labelled(name, **spec), owned(drain="Wait")))).server
    assert cluster(server)["status"]["runningJobs"] == 1
    assert condition_of(server, "Draining")[1] == "Waiting"


async def test_it_is_no_lock_and_gets_no_lock_s_priority() -> None:
    server = (await run(scenario(one, labelled(LOCK.name), owned(owner="ann")))).server
    assert cluster(server)["status"]["locked"] is False
    assert condition_of(server, "Locked") == ("False", "NameTaken")
    assert server.get(WORKLOAD, Key(NS, LOCK.name))["spec"].get("priority", 0) == 0


# --- quota synced --------------------------------------------------------------------------------------
# QuotaSynced never refers to a plan that is older than the rest of the same status.


async def test_it_is_true_only_when_the_queue_has_what_the_status_has() -> None:
    server = Server()
    hub(server)
    one(server)
    group = Group(server, actors.controllers())
    for change in (
        lambda: None,
        lambda: target(server, "c1", node(), node("n2", count=8)),
        lambda: edit(server, drain="Wait"),
        lambda: edit(server, drain=None),
        lambda: target(server, "c1", node(), node("n2", count=8), down="Timeout"),
        lambda: target(server, "c1", node(), node("n2", count=8)),
    ):
        change()
        await run_to_quiescence(group, [actors.kueue], horizon=300.0)
        assert condition_of(server, "QuotaSynced")[0] == "True"

    seen: set[tuple[int, int]] = set()
    quota: dict[str, int] = {}
    for written in server.history:
        found = written.object
        if written.resource is CLUSTER_QUEUE:
            entries = {e["name"]: e for g in found["spec"]["resourceGroups"] for e in g["flavors"]}
            quota = {q["name"]: int(q["nominalQuota"]) for q in entries.get("c1", {}).get("resources", ())}
        status = found.get("status") or {}
        current = status.get("observedGeneration") == found["metadata"].get("generation")
        if written.resource is FOURNOS_CLUSTER and current and is_true(found, "QuotaSynced"):
            takes_jobs = status.get("kubeconfigStatus") == "Valid" and not found["spec"].get("drain")
            wanted = (100 if takes_jobs else 0, (status.get("hardware") or {}).get("totalGPUs") or 0)
            assert (quota[SLOT], quota.get("fournos/gpu-l40s", 0)) == wanted, status
            seen.add(wanted)
    assert {(100, 2), (100, 10), (0, 10)} <= seen
