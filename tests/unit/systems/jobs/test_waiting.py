"""The message of a queued job when clusters take no jobs: a plain reason instead of Kueue's taints."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fournos.systems.jobs.context import Context
from fournos.systems.jobs.waiting import admission_message, waits_for

PREFIX = "couldn't assign flavors to pod set launcher: "
DRAINED = "untolerated taint {fournos.dev/unavailable draining NoSchedule <nil>} in flavor c1"
LOST = "untolerated taint {fournos.dev/unavailable unreachable NoSchedule <nil>} in flavor c2.lab"
SHORT = "insufficient unused quota for fournos/gpu-a100 in flavor c3, 2 more needed"
ELSEWHERE = "flavor c4 doesn't match node affinity"
SPOT = "untolerated taint {instance spot NoSchedule <nil>} in flavor c5"


def message_for(*reasons: str, cluster: str | None = None) -> str:
    """As Kueue joins them (its flavor assigner sorts the reasons)."""
    seen = SimpleNamespace(exclusive_holders=(), holders=(), all_locked=False)
    ctx: Any = SimpleNamespace(observed=seen, spec=SimpleNamespace(cluster=cluster, exclusive=False))
    return admission_message(cast(Context, ctx), PREFIX + ", ".join(sorted(reasons)))


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


LOCKED = "Cluster c1 is exclusively locked by job first, waiting for it to finish"
FULL = "Waiting for admission: insufficient unused quota for fournos/cluster-slot"


@pytest.mark.parametrize(
    ("phase", "cluster", "message", "expected"),
    [
        ("Pending", "c1", LOCKED, ("job/first",)),
        ("Pending", "c1", FULL, ("cluster/c1",)),
        ("Pending", None, FULL, ()),
        ("Pending", "c1", "Waiting for Kueue admission", ()),
        ("Pending", "c1", None, ()),
        ("Running", "c1", LOCKED, ()),
        ("Running", "c1", FULL, ()),
    ],
)
def test_a_job_is_woken_by_what_its_message_waits_for(
    phase: str, cluster: str | None, message: str | None, expected: tuple[str, ...]
) -> None:
    job = {"status": {"phase": phase, "message": message}, "spec": {"cluster": cluster}}
    assert waits_for(job) == expected


def test_a_job_without_status_or_spec_waits_for_nothing() -> None:
    assert waits_for({}) == waits_for({"status": {"phase": "Pending", "message": FULL}}) == ()
