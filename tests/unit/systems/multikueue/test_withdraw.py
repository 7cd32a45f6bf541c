"""The withdrawal from workers, as tables: why, how fast, in which order, and what stays on record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import IN_USE
from fournos.engine.runtime.decision import Decision, Delete, Facts, Patch, Present
from fournos.systems.multikueue import names
from fournos.systems.multikueue.observe import Remote
from fournos.systems.multikueue.remote import RemoteFailure, Send
from fournos.systems.multikueue.status import Context
from fournos.systems.multikueue.withdraw import STOP_GRACE, Withdrawal, clear, over
from tests.unit.systems.multikueue.test_decide import (
    AT,
    GONE,
    KEY,
    LIVE,
    NOW,
    SETTINGS,
    TOY,
    decided,
    observed,
    remote,
    true,
    twin,
    workload,
)

LATER = "2030-01-01T00:00:40Z"
GOING = {"deletionTimestamp": AT}
NOTES = {names.ATTEMPT: f"{AT}/0", names.JOB_UID: "j1", names.WORKER: "a"}
COPY: Obj = {
    "metadata": {"name": "toy", "namespace": "ns", "uid": "a-toy", "generation": 1, "annotations": NOTES},
    "status": {"phase": "Running"},
}
QUOTA = true("QuotaReserved")
JOB_GONE = Delete(TOY, Key("ns", "toy"), "a-toy")
COPY_GONE = Delete(WORKLOAD, KEY, "a-w")


def marked(obj: Obj, **meta: Any) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], **meta}}


def running(*conditions: Any, active: bool = True, **changes: Any) -> Remote:
    """Returns a worker with a copy of the Workload, which holds quota, and of the job."""
    copy = {**twin("a", *(conditions or (QUOTA, true("Admitted")))), "spec": {"active": active}}
    return replace(remote("a"), workload=copy, jobs=((TOY, COPY),), **changes)


# --- why -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (workload(), None),
        (None, Withdrawal(hard=True)),
        (marked(workload(), **GOING), Withdrawal(hard=True, final=True)),
        (workload(QUOTA, true("Finished", LATER)), Withdrawal(hard=True, final=True)),
        ({**workload(QUOTA, true("Evicted", LATER)), "spec": {"active": False}}, Withdrawal(at=LATER)),
        ({**workload(), "spec": {"active": False}}, Withdrawal()),
        ({**workload(), "spec": {"active": True}}, None),
        (workload(QUOTA, true("Evicted", LATER)), Withdrawal(at=LATER)),
        (workload({**true("QuotaReserved", LATER), "status": "False"}), Withdrawal(at=LATER)),
    ],
    ids=["none", "gone", "deleted", "finished", "deactivated", "inactive", "active", "evicted", "no quota"],
)
def test_why_workers_must_not_have_it(own: Obj | None, expected: Withdrawal | None) -> None:
    assert over(observed(own)) == expected


def test_a_queue_that_asks_for_no_worker_any_more() -> None:
    around = replace(observed(workload(clusterName="a"), remote("a", there=False)), check=None)
    assert over(around) == Withdrawal()
    found = decided(around)
    assert found.status is not None and "clusterName" not in found.status
    assert found.status["admissionChecks"] == workload()["status"]["admissionChecks"], (
        "it is not ours any more"
    )


def test_a_workload_that_is_gone_has_no_status() -> None:
    assert decided(observed(None, remote("a", there=False))) == Decision()


# --- how, on one worker --------------------------------------------------------------------------------


def cleared(there: Remote, withdrawal: Withdrawal, **status: Any) -> Decision:
    ctx = Context(observed(workload(**status), there), Facts({}), NOW, SETTINGS)
    clear(ctx, there, withdrawal)
    return ctx.gathered()


def sent(decision: Decision) -> list[Any]:
    """Returns the steps for the worker."""
    assert all(one.worker == "a" and one.workload == KEY for one in decision.steps if isinstance(one, Send))
    return [one.step for one in decision.steps if isinstance(one, Send)]


HARD = Withdrawal(hard=True)
SOFT = Withdrawal(at=AT)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (remote("a", there=False), []),
        (running(usable=False), []),
        (running(busy=True), []),
        (running(), [JOB_GONE]),
        (replace(running(), jobs=((TOY, marked(COPY, **GOING)),)), []),
        (remote("a"), [COPY_GONE]),
        (replace(remote("a"), workload=marked(twin("a"), **GOING)), []),
    ],
    ids=["empty", "unusable", "busy", "a job", "a job that goes", "a Workload", "a Workload that goes"],
)
def test_the_job_goes_before_its_workload(there: Remote, expected: list[Any]) -> None:
    """The quota stays as long as the job may run."""
    assert sent(cleared(there, HARD)) == expected


def test_our_finalizer_of_a_workload_that_goes_is_removed() -> None:
    held = marked(twin("a"), **GOING, finalizers=[IN_USE])
    (step,) = sent(cleared(replace(remote("a"), workload=held), HARD))
    assert isinstance(step, Patch) and step.resource == WORKLOAD
    assert step.body["metadata"]["finalizers"] in (None, [])


# --- with time to stop ---------------------------------------------------------------------------------


def test_a_run_is_asked_to_stop_before_it_is_deleted() -> None:
    found = cleared(running(), SOFT)
    body = {"metadata": {"resourceVersion": "1"}, "spec": {"active": False}}
    assert sent(found) == [Patch(WORKLOAD, KEY, body)]
    assert found.wake_at == parse_time(AT) + STOP_GRACE
    assert sent(cleared(running(active=False), SOFT)) == [], "it was asked already"
    going = running()
    assert going.workload is not None
    assert sent(cleared(replace(going, workload=marked(going.workload, **GOING)), SOFT)) == []


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (running({**QUOTA, "status": "False"}), [JOB_GONE]),
        (running(QUOTA, true("Finished")), [JOB_GONE]),
        (replace(running(), workload=None), [JOB_GONE]),
        (replace(running(), jobs=()), [COPY_GONE]),
    ],
    ids=["released", "finished", "no Workload", "no job"],
)
def test_what_holds_no_quota_there_needs_no_time(there: Remote, expected: list[Any]) -> None:
    assert sent(cleared(there, SOFT)) == expected


def test_a_run_that_does_not_stop_in_time_is_deleted() -> None:
    past = parse_time(AT) + timedelta(seconds=60) - STOP_GRACE
    late = Withdrawal(at=past.strftime("%Y-%m-%dT%H:%M:%SZ"))
    found = cleared(running(), late)
    assert sent(found) == [JOB_GONE] and found.wake_at is None


def test_without_a_time_here_the_eviction_there_counts() -> None:
    unknown = Withdrawal()
    asked = cleared(running(active=False), unknown)
    assert sent(asked) == [] and asked.wake_at is None
    evicted = cleared(running(QUOTA, true("Evicted", AT), active=False), unknown)
    assert sent(evicted) == [] and evicted.wake_at == parse_time(AT) + STOP_GRACE
    past = (parse_time(AT) - STOP_GRACE - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert sent(cleared(running(QUOTA, true("Evicted", past), active=False), unknown)) == [JOB_GONE]


@pytest.mark.parametrize(
    ("winner", "uid", "copied"),
    [("a", "j1", True), ("", "j1", True), ("b", "j1", False), ("a", "j0", False)],
    ids=["of the winner", "of none", "of another", "of an earlier job"],
)
def test_the_status_with_which_it_stopped_is_kept(winner: str, uid: str, copied: bool) -> None:
    copy = marked(COPY, annotations={**NOTES, names.ATTEMPT: "earlier", names.JOB_UID: uid})
    found = cleared(replace(running(), jobs=((TOY, copy),)), SOFT, clusterName=winner)
    patches = [one for one in found.steps if isinstance(one, Patch)]
    body = {"metadata": {"uid": "j1"}, "status": {"phase": "Running"}}
    expected = [Patch(TOY, Key("ns", "toy"), body, subresource="status")]
    assert patches == (expected if copied else [])


# --- what stays on record, and what is read live before ------------------------------------------------


def test_a_withdrawal_takes_the_claim_back() -> None:
    own = workload(true("Evicted"), clusterName="a")
    found = decided(observed(own, remote("b", there=False)))
    assert found.status is not None and "clusterName" not in found.status and found.steps == ()


def test_the_end_keeps_where_it_ran() -> None:
    own = workload(QUOTA, true("Finished"), clusterName="a")
    found = decided(observed(own, remote("b", there=False)))
    assert found.status is not None and found.status["clusterName"] == "a"


@pytest.mark.parametrize(
    ("there", "certain"),
    [
        (remote("a"), True),
        (replace(remote("a"), jobs=((TOY, COPY),)), True),
        (replace(remote("a"), workload=marked(twin("a"), annotations={names.ATTEMPT: "other"})), False),
        (replace(remote("a"), jobs=((TOY, marked(COPY, annotations={})),)), False),
    ],
    ids=["its Workload", "its job", "a Workload of another attempt", "a job of another attempt"],
)
def test_only_what_is_surely_over_goes_without_a_live_read(there: Remote, certain: bool) -> None:
    own = marked(workload(), **GOING)
    if certain:
        assert decided(observed(own, there)).steps
    else:
        refused = decided(observed(own, there), {LIVE: Present(workload())})
        assert refused == Decision(retry=True)
        assert decided(observed(own, there), {LIVE: Present(own)}).steps


def test_the_live_read_is_spared_while_nothing_is_there() -> None:
    assert decided(observed(GONE, remote("a", there=False))).steps == ()


def test_all_workers_are_cleared() -> None:
    own = marked(workload(), **GOING)
    failure = RemoteFailure("ConnectionLostError", "no route")
    found = decided(observed(own, remote("a"), replace(remote("b"), failure=failure)))
    sends = [one for one in found.steps if isinstance(one, Send)]
    gone = [(one.worker, one.step.uid) for one in sends if isinstance(one.step, Delete)]
    assert gone == [("a", "a-w"), ("b", "b-w")] and len(sends) == 2
