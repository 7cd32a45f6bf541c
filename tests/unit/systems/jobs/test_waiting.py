"""The message of a queued job when clusters take no jobs: a plain reason instead of Kueue's taints."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fournos.api.fournosjob import Waiting
from fournos.engine.queueing.workload import QueueState, WorkloadView
from fournos.systems.jobs.pending import admission, waits_for
from fournos.systems.jobs.status import Context

PREFIX = "couldn't assign flavors to pod set launcher: "
DRAINED = "untolerated taint {fournos.dev/unavailable draining NoSchedule <nil>} in flavor c1"
LOST = "untolerated taint {fournos.dev/unavailable unreachable NoSchedule <nil>} in flavor c2.lab"
SHORT = "insufficient unused quota for fournos/gpu-a100 in flavor c3, 2 more needed"
ELSEWHERE = "flavor c4 doesn't match node affinity"
SPOT = "untolerated taint {instance spot NoSchedule <nil>} in flavor c5"


def admitted(*reasons: str, cluster: str | None = None, **observed: Any) -> tuple[str, Waiting]:
    """As Kueue joins them (its flavor assigner sorts the reasons)."""
    nothing = {"exclusive_holders": (), "holders": (), "all_locked": False, "may_name_holder": True}
    seen = SimpleNamespace(**{**nothing, **observed})
    ctx: Any = SimpleNamespace(observed=seen, spec=SimpleNamespace(cluster=cluster, exclusive=False))
    queue = WorkloadView(QueueState.WAITING, "Pending", PREFIX + ", ".join(sorted(reasons)), {}, True)
    return admission(cast(Context, ctx), queue)


def message_for(*reasons: str, cluster: str | None = None) -> str:
    return admitted(*reasons, cluster=cluster)[0]


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("draining", "it is being drained"),
        ("removing", "it is being taken out of service"),
        ("unreachable", "it cannot be reached"),
        ("kubeconfig-invalid", "its kubeconfig is not accepted"),
        ("kubeconfig-missing", "its kubeconfig Secret is missing"),
        ("not-ready", "it is not ready yet"),
        ("tuesday", "tuesday"),
    ],
)
def test_the_wanted_cluster_takes_no_jobs(word: str, text: str) -> None:
    reason = DRAINED.replace("draining", word)
    expected = f"Cluster c1 takes no jobs: {text}. Waiting until it does"
    assert message_for(reason, cluster="c1") == expected
    assert message_for(reason, LOST, ELSEWHERE, cluster="c1") == expected


def test_another_cluster_s_problem_is_not_the_reason() -> None:
    assert message_for(DRAINED, LOST, SHORT, cluster="c3") == f"Waiting for admission: {PREFIX}{SHORT}"
    assert message_for(SHORT, LOST, cluster="c3") == f"Waiting for admission: {PREFIX}{SHORT}"


def test_none_of_the_clusters_takes_jobs() -> None:
    assert message_for(DRAINED) == "Cluster c1 takes no jobs: it is being drained. Waiting until one does"
    assert message_for(DRAINED, LOST) == (
        "No cluster takes jobs: c1: it is being drained; c2.lab: it cannot be reached. Waiting until one does"
    )


def test_some_take_jobs_and_have_no_room() -> None:
    expected = (
        f"Waiting for admission: {PREFIX}{SHORT} (c1: it is being drained; c2.lab: it cannot be reached)"
    )
    assert message_for(DRAINED, LOST, SHORT) == expected


def test_other_people_s_taints_are_kueue_s_business() -> None:
    assert message_for(SPOT) == f"Waiting for admission: {PREFIX}{SPOT}"
    assert message_for(DRAINED, SPOT) == f"Waiting for admission: {PREFIX}{SPOT} (c1: it is being drained)"


SLOTS = "insufficient unused quota for fournos/cluster-slot in flavor c1, 100 more needed"


@pytest.mark.parametrize(
    ("reasons", "cluster", "seen", "expected"),
    [
        ((DRAINED,), "c1", {}, {"cause": "Lock", "cluster": "c1"}),
        ((DRAINED,), None, {}, {"cause": "Lock"}),
        ((SHORT,), "c3", {}, {"cause": "Quota"}),
        ((SLOTS,), "c1", {}, {"cause": "Quota", "cluster": "c1"}),
        ((SLOTS,), None, {}, {"cause": "Quota"}),
        ((SLOTS,), None, {"all_locked": True}, {"cause": "Lock"}),
        ((SLOTS,), "c1", {"exclusive_holders": ("a",)}, {"cause": "Lock", "cluster": "c1", "holder": "a"}),
        (
            (SLOTS,),
            "c1",
            {"exclusive_holders": ("a",), "may_name_holder": False},
            {"cause": "Lock", "cluster": "c1"},
        ),
        (('topology "rack" has no room',), None, {}, {"cause": "Scheduling"}),
    ],
)
def test_what_a_queued_job_waits_for_is_a_field(
    reasons: tuple[str, ...], cluster: str | None, seen: dict[str, Any], expected: dict[str, str]
) -> None:
    message, waiting = admitted(*reasons, cluster=cluster, **seen)
    assert waiting.model_dump(exclude_none=True) == expected
    assert ("job a," in message) == ("holder" in expected)


@pytest.mark.parametrize(
    ("phase", "waiting", "expected"),
    [
        ("Pending", {"cause": "Lock", "cluster": "c1", "holder": "first"}, ("job/first",)),
        ("Pending", {"cause": "Quota", "cluster": "c1"}, ("cluster/c1",)),
        ("Pending", {"cause": "Lock", "cluster": "c1"}, ()),
        ("Pending", {"cause": "Quota"}, ()),
        ("Pending", None, ()),
        ("Running", {"cause": "Lock", "cluster": "c1", "holder": "first"}, ()),
    ],
)
def test_a_job_is_woken_by_what_its_status_says_that_it_waits_for(
    phase: str, waiting: dict[str, str] | None, expected: tuple[str, ...]
) -> None:
    message = "Cluster c1 is exclusively locked by job forged, waiting for it to finish"
    assert waits_for({"status": {"phase": phase, "message": message, "waiting": waiting}}) == expected


def test_a_job_without_status_waits_for_nothing() -> None:
    assert waits_for({}) == ()
