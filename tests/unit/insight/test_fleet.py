"""The fleet: GPUs, locks and health by cluster, who runs, who waits and why."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.insight.fleet import EXPLAINED, ClusterLock, GpuCounts, fleet, idle_locks, read
from fournos.insight.queues import QueueEntry
from fournos.insight.values import hardware
from tests.unit.cli.objects import NOW, NS, ago, job, workload
from tests.unit.cli.test_explain import world
from tests.unit.cli.test_queue import controlled


def cluster(name: str = "cluster-1", *gpus: tuple[str, int], **fields: Any) -> dict[str, Any]:
    found = [{"model": short.upper(), "shortName": short, "count": number} for short, number in gpus]
    status = {"kubeconfigStatus": "Valid", "hardware": {"gpus": found}, **fields.get("status", {})}
    return {
        "kind": "FournosCluster",
        "metadata": {"name": name, "namespace": "hearth"},
        "spec": fields.get("spec", {}),
        "status": status,
    }


def running(name: str, gpus: int, kind: str = "a100", on: str = "cluster-1", **fields: Any) -> dict[str, Any]:
    status = {"cluster": on, **fields.pop("status", {})}
    return job(
        name, "Running", spec={"hardware": {"gpuType": kind, "gpuCount": gpus}}, status=status, **fields
    )


def entry(place: int, name: str, kind: str = "FournosJob", reason: str = "full") -> QueueEntry:
    return QueueEntry(place, NS, kind, name, "me", 0, ago(minutes=1), reason)


def test_gpus_are_those_of_the_jobs_that_hold_the_cluster() -> None:
    jobs = [
        running("one", 2),
        running("two", 1, "h200"),
        running("three", 4, on="cluster-2"),
        job("four", "Pending"),
        job("five", "Succeeded", status={"cluster": "cluster-1"}),
    ]
    found = fleet(jobs, [cluster("cluster-1", ("a100", 8))], [])
    assert found.clusters[0].gpus == (GpuCounts("a100", 2, 8), GpuCounts("h200", 1, 0))
    assert len(found.clusters[0].running) == 2


def test_who_waits_stands_in_the_order_of_the_queue_and_new_jobs_last() -> None:
    jobs = [
        job("new", None, created=ago(hours=9)),
        job("late", "Pending"),
        job("first", "Pending"),
        job("ended", "Failed"),
    ]
    found = fleet(jobs, [], [entry(1, "first"), entry(2, "late"), entry(3, "new", kind="Job")])
    assert [(one.name, one.place, one.reason) for one in found.waiting] == [
        ("first", 1, "full"),
        ("late", 2, "full"),
        ("new", 0, ""),
    ]


async def test_it_is_read_from_a_source_with_the_reason_of_each() -> None:
    api = controlled(
        world(
            job("holder", "Running", status={"cluster": "cluster-1"}),
            job("one", "Pending"),
            workload("one", cluster="cluster-1"),
        )
    )
    api.add(FOURNOS_CLUSTER, cluster())
    found = await read(api, NS, "hearth", NOW)
    assert [one.name for one in found.clusters] == ["cluster-1", "cluster-2"]
    assert [one.name for one in found.running] == ["holder"]
    (waiting,) = found.waiting
    assert waiting.place == 1
    assert "cluster-1" in waiting.reason


async def test_what_may_not_be_read_is_left_out() -> None:
    api = controlled(world(job("one", "Pending", status={"message": "told"}), workload("one")))
    for resource in (FOURNOS_CLUSTER, WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE):
        api.fails["*", resource] = ForbiddenError("no", status=403)
    found = await read(api, NS, "hearth", NOW)
    assert found.clusters == ()
    assert [(one.name, one.place, one.reason) for one in found.waiting] == [("one", 0, "told")]
    api.fails["*", FOURNOS_JOB] = ForbiddenError("no", status=403)
    with pytest.raises(ForbiddenError):
        await read(api, NS, "hearth", NOW)


async def test_a_long_queue_is_explained_as_far_as_a_screen_shows_it() -> None:
    names = [f"job-{number:03}" for number in range(EXPLAINED + 3)]
    api = controlled(world(*(job(name, "Pending") for name in names), *(workload(name) for name in names)))
    found = await read(api, NS, "hearth", NOW)
    assert len(found.waiting) == EXPLAINED + 3
    assert [one.place for one in found.waiting[-4:]] == [EXPLAINED, 0, 0, 0]


async def test_the_first_of_the_queue_are_shown_and_the_others_counted() -> None:
    names = [f"job-{number}" for number in range(5)]
    # The source has them in the opposite order; the one that is not queued is older than all others.
    api = controlled(
        world(
            job("unqueued", "Pending", created=ago(hours=9)),
            *(job(name, "Pending") for name in reversed(names)),
            *(workload(name) for name in names),
        )
    )
    found = await read(api, NS, "hearth", NOW, most=3)
    assert [one.name for one in found.waiting] == names[:3]
    assert found.left_out == 3
    whole = await read(api, NS, "hearth", NOW)
    assert [one.name for one in whole.waiting] == [*names, "unqueued"]
    assert whole.left_out == 0


async def test_clusters_of_the_quota_stand_beside_those_that_hearth_describes() -> None:
    api = world(running("one", 2), cluster("cluster-1", ("a100", 16)))
    found = await read(api, NS, "hearth", NOW)
    assert [(one.name, one.health, one.gpus) for one in found.clusters] == [
        ("cluster-1", "Valid", (GpuCounts("a100", 2, 16),)),
        ("cluster-2", "", (GpuCounts("a100", 0, 8),)),
    ]


async def test_an_exclusive_job_is_the_lock_of_a_cluster_that_only_the_quota_names() -> None:
    lock = job("lock", "Admitted", spec={"owner": "ann", "lockOnly": True}, status={"cluster": "cluster-2"})
    shared = job(
        "one",
        "Running",
        spec={"exclusive": False, "owner": "ben", "hardware": {"gpuType": "a100", "gpuCount": 2}},
        status={"cluster": "cluster-1"},
    )
    found = await read(world(lock, shared), NS, "hearth", NOW)
    assert [(one.name, one.lock) for one in found.clusters] == [
        ("cluster-1", None),
        ("cluster-2", ClusterLock("Held", "ann", lock["metadata"]["creationTimestamp"], "", (), ())),
    ]


def test_jobs_without_a_place_follow_by_age() -> None:
    jobs = [job(name, "Pending", created=ago(minutes=age)) for name, age in (("a", 1), ("b", 9), ("c", 5))]
    found = fleet([*jobs, job("queued", "Pending")], [], [entry(1, "queued")], most=3)
    assert ([one.name for one in found.waiting], found.left_out) == (["queued", "b", "c"], 1)
    found = fleet(jobs, [], [], most=0)
    assert (found.waiting, found.left_out) == ((), 3)


def test_held_jobs_are_last_and_counted_apart() -> None:
    held = job("held", "Pending", created=ago(minutes=9), spec={"suspend": True})
    jobs = [held, *(job(name, "Pending", created=ago(minutes=1)) for name in "ab")]
    found = fleet(jobs, [], [], most=2)
    assert ([line.name for line in found.waiting], found.left_out, found.held) == (["a", "b"], 1, 1)
    assert [line.name for line in fleet(jobs, [], []).waiting] == ["a", "b", "held"]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "2 x h200 or 4 x a100"),
        ({"resolved": {"hardware": {"gpuType": "h200", "gpuCount": 2}}}, "2 x h200 or 4 x a100"),
        ({"resolved": {"hardware": {"gpuType": "a100", "gpuCount": 4}}}, "2 x h200 or 4 x a100"),
        ({"cluster": "c1", "resolved": {"hardware": {"gpuType": "a100", "gpuCount": 4}}}, "4 x a100"),
    ],
)
def test_a_job_shows_all_gpus_that_it_accepts_until_it_has_some(status: dict[str, Any], text: str) -> None:
    accepted = {"gpuType": "h200", "gpuCount": 2, "alternatives": [{"gpuType": "a100", "gpuCount": 4}]}
    assert hardware({"spec": {"hardware": accepted}, "status": status}) == text


# --- the cards of clusters ------------------------------------------------------------------------------


def card(**fields: Any) -> Any:
    one = cluster("cluster-1", ("a100", 8), **fields)
    return fleet([], [one], []).clusters[0]


def test_numbers_in_names_count_as_numbers() -> None:
    found = [cluster(name) for name in ("cluster-10", "cluster-2", "alpha", "2", "cluster-")]
    names = [one.name for one in fleet([], found, []).clusters]
    assert names == ["alpha", "cluster-", "cluster-2", "cluster-10", "2"]


def test_a_card_has_the_jobs_that_hold_the_cluster() -> None:
    jobs = [running("one", 2), running("two", 1, on="cluster-2")]
    one = cluster("cluster-1", ("a100", 8))
    found = next(each for each in fleet(jobs, [one], []).clusters if each.name == "cluster-1")
    assert [job.name for job in found.running] == ["one"]
    assert [(gpu.used, gpu.total) for gpu in found.gpus] == [(2, 8)]


def test_a_held_lock_has_its_holder_and_its_end() -> None:
    lock = {"state": "Held", "owner": "ann", "heldSince": "2030-01-01T10:00:00Z", "waiting": ["one"]}
    found = card(spec={"owner": "ann"}, status={"lock": lock, "lockExpiresAt": "2030-01-01T14:00:00Z"})
    assert found.lock == ClusterLock(
        "Held", "ann", "2030-01-01T10:00:00Z", "2030-01-01T14:00:00Z", (), ("one",)
    )
    assert found.state == "Lock held"


def test_a_lock_is_idle_when_nothing_but_the_job_that_holds_it_is_there() -> None:
    held = {"state": "Held", "owner": "ann", "heldSince": "2030-01-01T10:00:00Z"}
    clusters = [
        cluster(name, ("a100", 8), spec={"owner": "ann"}, status={"lock": held}) for name in ("c-1", "c-2")
    ]
    locks = [running(f"lock-{on}", 0, on=on) for on in ("c-1", "c-2")]
    for one in locks:
        one["spec"]["lockOnly"] = True
    jobs = [*locks, running("work", 2, on="c-2")]
    found = fleet(jobs, clusters, []).clusters
    assert [one.name for one in idle_locks(found)] == ["c-1"]


def test_a_lock_that_the_operator_has_not_seen_is_requested() -> None:
    assert card(spec={"owner": "ann"}).lock == ClusterLock("Requested", "ann", "", "", (), ())


DRAINED = {"conditions": [{"type": "Draining", "status": "True", "reason": "Drained"}]}


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "Open"),
        ({"spec": {"drain": "Wait"}}, "Draining"),
        ({"spec": {"drain": "Wait"}, "status": DRAINED}, "Drained"),
        ({"spec": {"drain": "Wait", "owner": "ann"}}, "Draining"),
        ({"status": {"decommission": "Removing"}}, "Removing"),
        ({"spec": {"owner": "ann"}, "status": {"kubeconfigStatus": "Unreachable"}}, "Unreachable"),
        ({"status": {"kubeconfigStatus": None}}, "Unknown"),
    ],
)
def test_the_state_is_what_counts_most(fields: dict[str, Any], state: str) -> None:
    assert card(**fields).state == state


def test_the_problem_is_that_of_the_connection_then_of_the_discovery() -> None:
    hardware = {"lastError": "no rights"}
    assert card(status={"connection": {"error": "no\nanswer"}, "hardware": hardware}).problem == "no answer"
    assert card(status={"hardware": hardware}).problem == "no rights"
