"""Clusters in the in-memory world: each story also runs through every crash, stale view, lost event and
failed write, and must end alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import CONFIG_MAP, SECRET, Key
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.systems.clusters.settings import ClusterSettings
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import (
    HUB,
    NS,
    QUEUE,
    SECRETS,
    SLOT,
    cluster,
    condition_of,
    edit,
    finish,
    foreign,
    hub,
    node,
    quotas,
    secret,
    submit,
    target,
)
from tests.unit.systems.clusters.test_planner import kueue_accepts
from tests.world.group import Group
from tests.world.harness import DISTURBED, Scenario, in_order, run, run_to_quiescence
from tests.world.server import Server

LOCK = Key(NS, "cluster-lock-c1")
FOREIGN = Key(NS, "test-blocked-job")


def queue_is_valid(server: Server) -> None:
    queue = server.find(CLUSTER_QUEUE, QUEUE)
    if queue is not None:
        kueue_accepts(queue)
        assert quotas(server)["mine"][SLOT] == 7


def locked_means_alone(server: Server) -> None:
    """status.locked is true only while the lock's Workload is admitted, safe from preemption."""
    for found in server.list(FOURNOS_CLUSTER):
        if (found.get("status") or {}).get("locked") and found["spec"].get("owner"):
            name = found["metadata"]["name"]
            workload = server.find(WORKLOAD, Key(NS, f"cluster-lock-{name}"))
            if workload is not None:
                assert is_true(workload, "Admitted") and workload["spec"]["priority"] == 1_000_000_000


def no_secret_has_leaked(server: Server) -> None:
    """Nor into an object as it was at any time."""
    for change in server.history:
        assert change.resource is SECRET or b"dG9rZW4" not in orjson.dumps(change.object)


INVARIANTS = (queue_is_valid, locked_means_alone)


def scenario(setup: Callable[[Server], None], *script: Callable[[Server], None], **kwargs: Any) -> Scenario:
    first, *others = actors.controllers(kwargs.pop("settings", actors.SETTINGS))
    return Scenario(
        first,
        in_order(hub, setup),
        others=others,
        actors=[actors.jobs_at_work, actors.kueue],
        script=script,
        invariants=INVARIANTS,
        lags=(1, 2, 3, 5, 8, 13, 21, 34, 55),
        # Who deletes what is not there yet, because an event was lost, deletes nothing.
        end_unseen=no_secret_has_leaked if deleted in script else outcome,
        **{"end": outcome, "horizon": 900.0, **kwargs},
    )


def outcome(server: Server) -> Any:
    """What all runs must agree on: not how often something was looked at, or when."""
    no_secret_has_leaked(server)
    found = {}
    for one in server.list(FOURNOS_CLUSTER):
        status = one.get("status") or {}
        conditions = {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions") or ()}
        conditions.pop("Retrying", None)
        if conditions.get("Draining") == ("False", "NotAsked"):
            del conditions["Draining"]  # as if it had never been asked for
        kept = ("kubeconfigStatus", "locked", "gpuSummary", "lockJobName", "runningJobs", "decommission")
        found[one["metadata"]["name"]] = (
            one["spec"].get("owner"),
            (one["spec"].get("hardware") or {}).get("gpus"),
            {name: status.get(name) for name in kept},
            (status.get("lock") or {}).get("state"),
            conditions,
        )
    locks = [job["spec"] for job in server.list(FOURNOS_JOB) if job["spec"].get("lockOnly")]
    flavors = {f["metadata"]["name"]: f["spec"] for f in server.list(RESOURCE_FLAVOR)}
    removed = [set(obj.get("data") or {}) for obj in server.list(CONFIG_MAP)]
    return found, locks, flavors, quotas(server), removed


def one(server: Server) -> None:
    target(server, "c1", node())
    secret(server, "c1")


def two(server: Server) -> None:
    one(server)
    target(server, "c2", node(product="AMD_Instinct_MI210", count=8))
    secret(server, "c2")


def big(server: Server) -> None:
    target(server, "c1", node(), node("n2", count=8))
    secret(server, "c1")


def no_nodes(server: Server) -> None:
    target(server, "c1")
    secret(server, "c1", content="exec")


def owned(**spec: Any) -> Callable[[Server], None]:
    return lambda server: edit(server, **spec)


def busy(server: Server) -> None:
    submit(server, "job-1")
    submit(server, "job-2")


def ends(*names: str) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for name in names:
            finish(server, name)

    return act


def deleted(server: Server) -> None:
    server.delete(FOURNOS_CLUSTER, Key(HUB, "c1"))


def secret_deleted(server: Server) -> None:
    server.delete(SECRET, Key(SECRETS, "kubeconfig-c1"))


def unlabelled(server: Server) -> None:
    body = {"metadata": {"labels": {"fournos.dev/cluster-kubeconfig": None}}}
    server.patch(SECRET, Key(SECRETS, "kubeconfig-c1"), body)


def down(server: Server) -> None:
    target(server, "c1", node(), down="Timeout")


def shrunk(server: Server) -> None:
    target(server, "c1", node(), node("n2", count=8, unschedulable=True))


def foreign_ends(server: Server) -> None:
    server.delete(WORKLOAD, FOREIGN)


def request_discovery(server: Server) -> None:
    body = {"metadata": {"annotations": {"fournos.dev/discover": "now"}}}
    server.patch(FOURNOS_CLUSTER, Key(HUB, "c1"), body)


def one_back(server: Server) -> None:
    target(server, "c1", node(), down="")


STORIES: dict[str, Scenario] = {
    "is found": scenario(two),
    "shrinks": scenario(big, shrunk),
    "is lost and heals": scenario(one, down, one_back),
    "is locked and unlocked": scenario(one, owned(owner="ann"), owned(owner="")),
    "changes hands": scenario(one, owned(owner="ann"), owned(owner="bob")),
    "lock expires": scenario(one, owned(owner="ann", ttl="5m")),
    "lock waits behind jobs": scenario(one, busy, owned(owner="ann"), ends("job-1", "job-2")),
    "drained for a lock": scenario(one, busy, owned(owner="ann", drain="Stop")),
    "drained": scenario(one, busy, owned(drain="Wait"), ends("job-1", "job-2"), owned(drain=None)),
    "deleted": scenario(two, deleted),
    "deleted while locked": scenario(one, owned(owner="ann"), deleted),
    "deleted while jobs run": scenario(one, busy, deleted, ends("job-1", "job-2")),
    "deleted while somebody else's Workload holds quota": scenario(
        one, foreign, owned(owner="ann", drain="Stop"), deleted, foreign_ends
    ),
    "its Secret goes": scenario(two, secret_deleted),
    "its label goes": scenario(one, unlabelled),
    "is looked at anew": scenario(one, request_discovery),
    "refused": scenario(lambda s: secret(s, "c1", content="exec: rm")),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 3


# --- what the stories come to -------------------------------------------------------------------------


async def test_a_labelled_secret_is_all_it_takes() -> None:
    server = (await run(STORIES["is found"])).server
    found = cluster(server)
    assert found["metadata"]["labels"] == {
        "fournos.dev/auto-discovered": "true",
        "app.kubernetes.io/managed-by": "hearth",
    }
    status = found["status"]
    assert status["kubeconfigStatus"] == "Valid" and status["locked"] is False
    assert status["gpuSummary"] == "2x NVIDIA-L40S"
    assert status["connection"]["version"] == "v1.34.4"
    hardware = found["spec"]["hardware"]
    assert hardware["totalGPUs"] == 2 and hardware["consecutiveFailures"] == 0
    assert hardware["gpus"] == [
        {"vendor": "nvidia", "model": "NVIDIA-L40S", "shortName": "l40s", "count": 2, "nodeCount": 1}
    ]
    assert quotas(server) == {
        "mine": {SLOT: 7, "fournos/gpu-l40s": 0, "fournos/gpu-mi210": 0},
        "c1": {SLOT: 100, "fournos/gpu-l40s": 2, "fournos/gpu-mi210": 0},
        "c2": {SLOT: 100, "fournos/gpu-l40s": 0, "fournos/gpu-mi210": 8},
    }
    for type_ in ("KubeconfigValid", "Reachable", "GPUDiscovered", "QuotaSynced"):
        assert condition_of(server, type_)[0] == "True", type_
    assert condition_of(server, "Locked") == ("False", "NoOwner")


async def test_discovery_again_and_again_bumps_no_generation() -> None:
    server = Server()
    hub(server)
    one(server)
    group = Group(server, actors.controllers(ClusterSettings()))
    await run_to_quiescence(group, [actors.kueue], horizon=7200.0)
    changes = [c for c in server.history if c.resource is FOURNOS_CLUSTER]
    generations = [c.object["metadata"]["generation"] for c in changes]
    assert max(generations) == 2, "created, then the inventory once"
    assert cluster(server)["status"]["hardware"]["lastDiscovery"] == "2030-01-01T02:00:00Z"


async def test_the_lock_as_the_readme_shows_it() -> None:
    server = (await run(scenario(one, owned(owner="your-name")))).server
    status = cluster(server)["status"]
    assert status["locked"] is True and status["lockJobName"] == "cluster-lock-c1"
    assert status["lock"]["state"] == "Held" and status["lock"]["owner"] == "your-name"
    spec = server.get(FOURNOS_JOB, LOCK)["spec"]
    assert spec == {
        "cluster": "c1",
        "exclusive": True,
        "lockOnly": True,
        "owner": "your-name",
        "displayName": "Cluster lock: c1 (owner: your-name)",
        "priority": "fournos-lock-requested",
    }
    assert server.get(WORKLOAD, LOCK)["spec"]["priority"] == 1_000_000_000


async def test_a_lock_behind_jobs_is_requested_and_names_them() -> None:
    server = (await run(scenario(one, busy, owned(owner="ann")))).server
    status = cluster(server)["status"]
    assert status["locked"] is False
    assert status["lock"] == {"state": "Requested", "owner": "ann", "behind": ["job-1", "job-2"]}
    assert server.get(WORKLOAD, LOCK)["spec"]["priority"] < 0


async def test_a_drained_cluster_gives_nothing_and_then_all() -> None:
    done = await run(scenario(one, busy, owned(drain="Wait"), lambda s: submit(s, "job-3")))
    assert condition_of(done.server, "Draining") == ("True", "Waiting")
    assert quotas(done.server)["c1"][SLOT] == 0
    assert condition_of(done.server, "QuotaSynced") == ("True", "BelowUse")
    assert not is_true(done.server.get(WORKLOAD, Key(NS, "job-3")), "Admitted")
    server = (await run(STORIES["drained"])).server
    assert quotas(server)["c1"][SLOT] == 100 and condition_of(server, "Draining") == ("False", "NotAsked")


async def test_a_deleted_cluster_leaves_nothing_and_stays_away_until_its_secret_changes() -> None:
    def changed(server: Server) -> None:
        body = {"metadata": {"annotations": {"fournos.dev/owner": "ann"}}}
        server.patch(SECRET, Key(SECRETS, "kubeconfig-c1"), body)

    done = await run(scenario(one, deleted))
    assert done.server.list(FOURNOS_CLUSTER) == []
    assert [f["metadata"]["name"] for f in done.server.list(RESOURCE_FLAVOR)] == ["mine"]
    assert quotas(done.server) == {"mine": {SLOT: 7}}
    back = await run(scenario(one, deleted, changed))
    assert cluster(back.server)["spec"]["owner"] == "ann"
    assert cluster(back.server)["status"]["locked"] is True


async def test_jobs_keep_a_deleted_cluster_until_they_end() -> None:
    server = (await run(scenario(one, busy, deleted))).server
    assert cluster(server)["status"]["decommission"] == "Draining"
    assert "c1" in quotas(server) and condition_of(server, "Draining") == ("True", "Waiting")


async def test_a_refused_kubeconfig_has_a_reason_and_waits_for_another() -> None:
    def rotated(server: Server) -> None:
        server.patch(SECRET, Key(SECRETS, "kubeconfig-c1"), {"data": {"kubeconfig": "dG9rZW4="}})

    server = (await run(STORIES["refused"])).server
    assert cluster(server)["status"]["kubeconfigStatus"] == "Invalid"
    assert condition_of(server, "KubeconfigValid") == ("False", "ExecNotAllowed")
    assert quotas(server)["c1"][SLOT] == 0
    recovered = await run(scenario(no_nodes, rotated))
    assert cluster(recovered.server)["status"]["kubeconfigStatus"] == "Valid"


async def test_a_gpu_that_no_resource_can_be_named_after_is_left_out_and_named() -> None:
    """Kueue refuses the quotas of all clusters for one such name."""

    def setup(server: Server) -> None:
        evil = node("n2", product="A" * 40)
        evil["status"]["allocatable"] = {"nvidia.com/mig-" + "1" * 20: "1", "nvidia.com/gpu": "4"}
        target(server, "c1", node(), evil)
        secret(server, "c1")
        target(server, "c2", node(product="AMD_Instinct_MI210", count=8))
        secret(server, "c2")

    server = (await run(scenario(setup))).server
    assert condition_of(server, "GPUDiscovered") == ("True", "SomeLeftOut")
    found = condition(cluster(server, "c1"), "GPUDiscovered") or {}
    assert "A" * 40 + "-MIG-1" in found["message"]
    assert quotas(server)["c1"][f"fournos/gpu-{'a' * 40}"] == 4
    assert quotas(server)["c2"]["fournos/gpu-mi210"] == 8
    assert condition_of(server, "QuotaSynced") == ("True", "Synced")


async def test_a_cluster_of_many_models_has_as_many_as_its_status_holds() -> None:
    def setup(server: Server) -> None:
        target(server, "c1", *(node(f"n{n}", product=f"model{n:03}") for n in range(100)))
        secret(server, "c1")

    server = (await run(scenario(setup))).server
    assert len(cluster(server)["status"]["hardware"]["gpus"]) == 64
    assert condition_of(server, "GPUDiscovered") == ("True", "SomeLeftOut")


async def test_discovery_runs_on_request() -> None:
    server = (await run(scenario(one, lambda s: s.clock.advance(60), request_discovery))).server
    status = cluster(server)["status"]
    assert status["discoverRequested"] == "now" and status["kubeconfigStatus"] == "Valid"
    assert status["hardware"]["lastDiscovery"] == "2030-01-01T00:01:00Z"


async def test_a_lost_cluster_takes_no_jobs_and_keeps_its_inventory() -> None:
    server = (await run(scenario(one, down))).server
    status = cluster(server)["status"]
    assert status["kubeconfigStatus"] == "Unreachable" and status["gpuSummary"] == "2x NVIDIA-L40S"
    assert cluster(server)["spec"]["hardware"]["lastError"] == "c1 cannot be reached"
    assert quotas(server)["c1"] == {SLOT: 0, "fournos/gpu-l40s": 2}
    flavor = server.get(RESOURCE_FLAVOR, Key("", "c1"))
    assert flavor["spec"]["nodeTaints"][0]["value"] == "unreachable"
