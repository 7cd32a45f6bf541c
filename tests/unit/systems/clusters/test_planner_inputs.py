"""The input of the planner from a FournosCluster."""

from __future__ import annotations

from itertools import product
from typing import Any

from fournos.api.fournoscluster import KubeconfigStatus
from fournos.api.slots import UNAVAILABLE
from fournos.systems.clusters.clusterqueue import plan
from fournos.systems.clusters.quotas import PlannerInput, planner_input
from tests.unit.systems.clusters.test_planner import PREFIX, SLOT, applied, flavors_of, queue, quotas

OPEN = {"status": {"kubeconfigStatus": "Valid"}}


def member(**cluster: Any) -> PlannerInput:
    return planner_input({"metadata": {"name": "c1"}, **cluster})


def test_a_closed_cluster_has_slots_for_a_lock_that_is_about_to_be_held_and_else_none() -> None:
    about_to: list[tuple[Any, ...]] = []
    for owner, drain, jobs, state, health in product(
        ("", "ann"), (None, "Wait"), (0, 2), (None, "Requested", "Held"), ("Valid", "Unreachable")
    ):
        lock = {"lock": {"state": state}} if state else {}
        status = {"kubeconfigStatus": health, "runningJobs": jobs, **lock}
        spec = {"owner": owner, **({"drain": drain} if drain else {})}
        found = member(spec=spec, status=status)
        if not found.closed:
            continue
        if found.for_lock:
            about_to.append((owner, jobs, state))
            continue
        # Kueue looks again at who waits when the ClusterQueue changes: opening it must change that.
        closed = applied(queue(), plan([found], flavors_of(found), queue(), prefix=PREFIX))
        reopened = plan([member(**OPEN)], flavors_of(member(**OPEN)), closed, prefix=PREFIX)
        assert quotas(reopened) == {"c1": {SLOT: "100"}}, (spec, status)
    assert set(about_to) == {("ann", 0, None), ("ann", 0, "Requested")}


def test_every_reason_for_taking_no_jobs_has_words() -> None:
    gone = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    found = {
        planner_input({"metadata": {"name": "c1", **gone}}).closed,
        member(spec={"drain": "Stop"}).closed,
        member().closed,
        *(member(status={"kubeconfigStatus": status.value}).closed for status in KubeconfigStatus),
    }
    assert found - {""} == set(UNAVAILABLE)
