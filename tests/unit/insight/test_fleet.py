"""The fleet: what a card of a cluster has beyond the overview."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.insight.fleet import ClusterLock, cards, idle_locks
from fournos.insight.overview import overview
from tests.unit.insight.test_overview import cluster, running


def card(**fields: Any) -> Any:
    one = cluster("cluster-1", ("a100", 8), **fields)
    (found,) = cards([one], overview([], [one], []))
    return found


def test_numbers_in_names_count_as_numbers() -> None:
    found = [cluster(name) for name in ("cluster-10", "cluster-2", "alpha", "2", "cluster-")]
    names = [one.name for one in cards(found, overview([], found, []))]
    assert names == ["alpha", "cluster-", "cluster-2", "cluster-10", "2"]


def test_a_card_has_the_jobs_that_hold_the_cluster() -> None:
    jobs = [running("one", 2), running("two", 1, on="cluster-2")]
    one = cluster("cluster-1", ("a100", 8))
    (found,) = cards([one], overview(jobs, [one], []))
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
    found = cards(clusters, overview(jobs, clusters, []))
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
