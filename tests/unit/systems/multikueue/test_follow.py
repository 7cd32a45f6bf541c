"""The dispatch to one worker, as tables: what is refused, what comes back, when a worker counts as lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Decision,
    Delete,
    Facts,
    LiveGet,
    Patch,
    Present,
    StepFailure,
    Unknown,
)
from fournos.systems.multikueue import names
from fournos.systems.multikueue.build import mirror
from fournos.systems.multikueue.config import parse
from fournos.systems.multikueue.decide import decide
from fournos.systems.multikueue.observe import Observed, Remote
from fournos.systems.multikueue.remote import Read, RemoteFailure, Send, create
from fournos.systems.multikueue.withdraw import STOP_GRACE
from tests.unit.systems.multikueue.test_decide import (
    AT,
    JOB,
    KEY,
    NOW,
    SETTINGS,
    TOY,
    decided,
    observed,
    orders,
    remote,
    true,
    twin,
    workload,
)
from tests.unit.systems.multikueue.test_withdraw import COPY, COPY_GONE, JOB_GONE, running, sent

ON = (true("QuotaReserved"), true("Admitted"))
TAKEN = RemoteFailure("ForeignObject", "toy is taken", f"{AT}/0")


def claimed(*remotes: Remote, state: str = "Pending", **status: Any) -> Observed:
    """Returns a Workload with the winner "a"."""
    own = workload(clusterName="a", **status)
    own["status"]["admissionChecks"][0]["state"] = state
    return observed(own, *remotes)


def check(decision: Decision) -> tuple[str, str]:
    assert decision.status is not None
    found = decision.status["admissionChecks"][0]
    return found["state"], found["message"]


def winner(decision: Decision) -> str | None:
    assert decision.status is not None
    found = decision.status.get("clusterName")
    return None if found is None else str(found)


NOT_OURS = f'The owner is not managed by Kueue: Expecting .spec.managedBy to be "{names.MULTIKUEUE}" not'


# --- a job that cannot be dispatched -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": None}, "No multikueue adapter found for owner kind example.com/v1, Kind=Toy"),
        ({"job": {**JOB, "spec": {"managedBy": "other"}}}, f'{NOT_OURS} "other"'),
        ({"job": {**JOB, "spec": {}}}, f'{NOT_OURS} ""'),
    ],
    ids=["another kind", "another controller", "no controller"],
)
def test_a_job_that_cannot_be_dispatched_is_rejected(changes: Any, message: str) -> None:
    found = decided(replace(observed(workload(), remote("a", there=False)), **changes))
    assert check(found) == ("Rejected", message) and found.steps == ()


def test_a_workload_without_an_owner_is_rejected() -> None:
    own = workload()
    own["metadata"]["ownerReferences"] = []
    found = decided(observed(own, remote("a", there=False)))
    assert check(found) == ("Rejected", "No multikueue adapter found for owner kind none")


@pytest.mark.parametrize(
    ("answer", "retry"), [(Absent(), False), (Present(JOB), True), (Unknown("timeout"), True)]
)
def test_a_job_that_only_the_cache_misses_is_waited_for(answer: Answer, retry: bool) -> None:
    around = replace(observed(workload(), remote("a", there=False)), job=None)
    assert decided(around, {LiveGet(TOY, Key("ns", "toy")): answer}) == Decision(retry=retry)


@pytest.mark.parametrize(
    "changes", [{"uid": "j2"}, {"deletionTimestamp": AT}], ids=["another of this name", "it is deleted"]
)
def test_a_job_that_is_not_the_owner_any_more_changes_nothing(changes: Any) -> None:
    job = {**JOB, "metadata": {**JOB["metadata"], **changes}}
    around = replace(observed(workload(), remote("a", there=False)), job=job)
    assert decided(around) == Decision()


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_nothing_is_sent_while_kueue_is_about_to_evict_it(state: str) -> None:
    own = workload()
    own["status"]["admissionChecks"][0]["state"] = state
    assert decided(observed(own, remote("a", there=False))).steps == ()


# --- objects of an earlier attempt ---------------------------------------------------------------------

EARLIER = {names.ATTEMPT: "2029-01-01T00:00:00Z/0", names.WORKLOAD_UID: "w1", names.WORKER: "a"}


def of_earlier(uid: str = "w1", name: str = "a") -> Remote:
    copy = twin(name, *ON)
    meta = {**copy["metadata"], "annotations": {**EARLIER, names.WORKLOAD_UID: uid}}
    job = {**COPY, "metadata": {**COPY["metadata"], "annotations": EARLIER}}
    return replace(remote(name), workload={**copy, "metadata": meta}, jobs=((TOY, job),))


def test_an_earlier_attempt_is_stopped_before_it_is_deleted_and_one_of_others_is_not() -> None:
    ours = decided(observed(workload(), of_earlier()))
    assert [(type(step), step.resource) for step in sent(ours)] == [(Patch, WORKLOAD)]
    late = parse_time(AT) + STOP_GRACE
    forced = decide(observed(workload(), of_earlier()), Facts({}), late, settings=SETTINGS)
    assert sent(forced) == [JOB_GONE], "it had its time"
    assert sent(decided(observed(workload(), of_earlier("w0")))) == [JOB_GONE]


def test_no_worker_is_asked_before_an_earlier_attempt_is_gone() -> None:
    """The job must not run twice: first in silence, then with the reason, in the end without that worker."""

    def after(seconds: float) -> Decision:
        around = observed(workload(), of_earlier("w0"), remote("b", there=False))
        now = parse_time(AT) + timedelta(seconds=seconds)
        return decide(around, Facts({}), now, settings=SETTINGS)

    grace = STOP_GRACE.total_seconds()
    silent = after(grace - 1)
    assert [worker for worker, _ in orders(silent)] == ["a"]
    assert silent.wake_at == parse_time(AT) + timedelta(seconds=grace) and check(silent)[1] == ""
    named = after(grace)
    text = 'waits for an earlier attempt to go; "a" still has Toy ns/toy, Workload ns/w of an earlier attempt'
    assert check(named) == ("Pending", text)
    assert named.wake_at == parse_time(AT) + timedelta(seconds=2 * grace)
    without = after(2 * grace)
    assert ("b", type(create(WORKLOAD, {}))) in orders(without)
    assert check(without)[1].startswith('waits for quota on "b"; "a" still has')


def test_an_earlier_attempt_on_a_worker_that_is_lost_holds_nobody_up() -> None:
    lost = replace(of_earlier(), usable=False)
    found = decided(observed(workload(), lost, remote("b", there=False)))
    assert [worker for worker, _ in orders(found)] == ["b"]


@pytest.mark.parametrize("active", [True, False])
def test_a_copy_that_was_deactivated_is_withdrawn(active: bool) -> None:
    there = replace(remote("a"), workload={**twin("a"), "spec": {"active": active}})
    assert sent(decided(observed(workload(), there))) == ([] if active else [COPY_GONE])


# --- the winner ----------------------------------------------------------------------------------------


def test_the_winner_gets_the_job() -> None:
    found = decided(claimed(remote("a", *ON)))
    copy = mirror(JOB, TOY, workload="w", worker="a", origin="here", attempt=f"{AT}/0")
    assert found.steps == (Send("a", KEY, create(TOY, copy)),)
    assert decided(claimed(replace(remote("a", *ON), busy=True))).steps == ()


def test_the_others_are_cleared_at_once() -> None:
    other = replace(remote("b", *ON), jobs=((TOY, COPY),))
    found = decided(claimed(running(), other))
    assert ("b", Delete) in orders(found) and ("a", Delete) not in orders(found)


def test_a_copy_that_runs_makes_the_check_ready_and_its_status_comes_back() -> None:
    found = decided(claimed(running()))
    assert check(found) == ("Ready", 'The workload got reservation on "a"')
    body = {"metadata": {"uid": "j1"}, "status": {"phase": "Running"}}
    assert found.steps == (Patch(TOY, Key("ns", "toy"), body, subresource="status"),)
    same = replace(claimed(running()), job={**JOB, "status": {"phase": "Running"}})
    assert decided(same).steps == ()


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ((), '"a" is not among the workers any more'),
        ((replace(running(), listed=False),), '"a" is not among the workers any more'),
        ((remote("a", there=False),), 'its Workload on "a" is gone'),
        ((running(*ON, {**true("Evicted"), "message": "make room"}),), '"a" has evicted it: make room'),
        ((running(true("QuotaReserved")),), '"a" has evicted it: not admitted any more'),
        ((replace(remote("a", *ON), failure=TAKEN),), '"a" does not take it: toy is taken'),
    ],
    ids=["unknown", "unlisted", "gone", "evicted", "not admitted", "refused"],
)
def test_a_winner_that_does_not_run_it_is_given_up(there: tuple[Remote, ...], message: str) -> None:
    """Only the claim goes where nothing runs yet; else Kueue evicts it, which stops what runs."""
    early, copies = decided(claimed(*there)), any(one.jobs for one in there)
    expected = ("Retry", "a") if copies else ("Pending", None)
    assert (check(early), winner(early)) == ((expected[0], message), expected[1])
    late = decided(claimed(*there, state="Ready"))
    assert (check(late), winner(late)) == (("Retry", message), "a")


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("FournosJob.v1.fournos.dev", {"phase": "Succeeded"}, "Succeeded"),
        ("FournosJob.v1.fournos.dev", {"phase": "Stopped"}, "Failed"),
        ("MiniCluster.v1alpha2.flux-framework.org", {"phase": "Finished", "exitCode": 0}, "Succeeded"),
        ("AppWrapper.v1beta2.workload.codeflare.dev", {"phase": "Failed"}, "Failed"),
        ("PipelineRun.v1.tekton.dev", {"conditions": [true("Succeeded")]}, "Succeeded"),
        ("PipelineRun.v1.tekton.dev", {"conditions": []}, None),
        ("FournosJob.v1.fournos.dev", {"phase": "Running"}, None),
        ("Toy.v1.example.com", {"phase": "Succeeded"}, None),
    ],
)
def test_the_end_of_a_copy_counts_without_its_workload(kind: str, status: Any, expected: str | None) -> None:
    """Kueue on the worker may remove finished Workloads (objectRetentionPolicies)."""
    resource = parse(kind)
    ((_, copy),) = running().jobs
    there = replace(running(), workload=None, jobs=((resource, {**copy, "status": status}),))
    found = decided(replace(claimed(there, state="Ready"), kind=resource))
    assert check(found)[0] == ("Ready" if expected else "Retry")
    assert (finished(found) or (None,))[0] == expected
    assert bool(found.steps) is bool(expected), "its status comes along"


def test_a_workload_that_is_being_made_there_is_not_gone() -> None:
    found = decided(claimed(replace(remote("a", there=False), busy=True)))
    assert winner(found) == "a" and check(found)[0] == "Pending"


def test_the_status_with_which_a_worker_evicts_it_is_kept() -> None:
    (step,) = decided(claimed(running(*ON, true("Evicted")))).steps
    assert isinstance(step, Patch) and (step.resource, step.subresource) == (TOY, "status")


def test_the_priority_of_the_winner_follows() -> None:
    around = claimed(running())
    assert around.workload is not None
    own = {**around.workload, "spec": {**around.workload["spec"], "priority": 7}}
    found = decided(replace(around, workload=own))
    body = {"metadata": {"resourceVersion": "1"}, "spec": {"priority": 7, "priorityClassRef": None}}
    assert sent(found) == [Patch(WORKLOAD, KEY, body)]


# --- a worker that is lost -----------------------------------------------------------------------------


def lost(seconds: float | None, reason: str = "no route") -> Remote:
    since = None if seconds is None else NOW - timedelta(seconds=seconds)
    return replace(running(), usable=False, unusable_reason=reason, lost_since=since)


def test_a_worker_is_lost_after_its_time() -> None:
    limit = SETTINGS.worker_lost
    unknown = decided(claimed(lost(None), state="Ready"))
    assert check(unknown)[0] == "Ready" and unknown.wake_at is None
    short = decided(claimed(lost(limit - 1), state="Ready"))
    assert check(short)[0] == "Ready" and short.wake_at == NOW + timedelta(seconds=1)
    assert check(decided(claimed(lost(limit), state="Ready"))) == ("Retry", '"a" is lost: no route')
    silent = decided(claimed(lost(limit, ""), state="Ready"))
    assert check(silent) == ("Retry", '"a" is lost: not connected')


def test_a_worker_that_has_left_the_config_and_cannot_be_reached_is_waited_for_as_long() -> None:
    """What runs there cannot be stopped, and must not run twice."""
    limit = SETTINGS.worker_lost
    short, late = (replace(lost(age), listed=False) for age in (limit - 1, limit))
    assert check(decided(claimed(short, state="Ready")))[0] == "Ready"
    assert check(decided(claimed(late, state="Ready"))) == ("Retry", '"a" is lost: no route')


def test_a_config_that_is_made_again_stops_nothing() -> None:
    around = claimed(replace(running(), listed=False), state="Ready")
    found = decided(replace(around, config_missing=True))
    assert check(found)[0] == "Ready" and winner(found) == "a"


# --- the end -------------------------------------------------------------------------------------------


def over(reason: str = "Succeeded", message: str = "done", since: str = AT, **changes: Any) -> Remote:
    ended = {**true("Finished", since), "reason": reason, "message": message}
    return running(*ON, ended, **changes)


def finished(decision: Decision) -> tuple[str, str] | None:
    assert decision.status is not None
    found = [one for one in decision.status["conditions"] if one["type"] == "Finished"]
    assert all(one["status"] == "True" for one in found)
    return (found[0]["reason"], found[0]["message"]) if found else None


def test_the_last_status_is_read_before_the_end_is_declared() -> None:
    """Job and Workload have watches of their own: the job's last status may come later."""
    first = decided(claimed(over()))
    assert first.steps == (Send("a", KEY, Read(TOY, Key("ns", "toy"), "1")),) and finished(first) is None
    assert decided(claimed(over(busy=True))).steps == ()
    read = decided(claimed(over(last_read="1")))
    assert finished(read) == ("Succeeded", "done")
    assert [one.reason for one in read.events] == ["FinishedOnWorker"]
    assert read.events[0].message == 'Succeeded on "a": done'
    assert isinstance(read.steps[0], Patch) and read.steps[0].subresource == "status"


def test_an_end_without_a_reason_is_a_success() -> None:
    assert finished(decided(claimed(over("", "", last_read="1")))) == ("Succeeded", "")


def test_a_job_that_does_not_fit_there_is_tried_elsewhere() -> None:
    found = decided(claimed(over("OutOfSync", "too large")))
    assert check(found) == ("Retry", 'on "a" it does not fit its Workload: too large')
    assert finished(found) is None


FOURNOS = Resource("fournos.dev", "v1", "FournosJob", "fournosjobs")


@pytest.mark.parametrize(
    ("phase", "since", "ends"),
    [
        ("Running", "2030-01-01T00:00:31Z", False),
        ("Running", "2030-01-01T00:00:30Z", True),
        ("Failed", "2030-01-01T00:00:59Z", True),
    ],
    ids=["not yet", "after its time", "ended"],
)
def test_the_end_waits_for_that_of_the_job(phase: str, since: str, ends: bool) -> None:
    copy = {**COPY, "status": {"phase": phase}}
    there = replace(over(since=since, last_read="1"), jobs=((FOURNOS, copy),))
    found = decided(replace(claimed(there), kind=FOURNOS))
    assert (finished(found) is not None) is ends
    assert found.wake_at == (None if ends else NOW + timedelta(seconds=1))


# --- a status that the API server refuses --------------------------------------------------------------


def refused(error: str, count: int = 1) -> Decision:
    """Returns the decision on a refused status of a job whose end is waited for, beside another worker."""
    copy = {**COPY, "status": {"phase": "Running"}}
    there = replace(over(since="2030-01-01T00:00:31Z", last_read="1"), jobs=((FOURNOS, copy),))
    around = replace(claimed(there, remote("b"), state="Ready"), kind=FOURNOS)
    (step,) = [one for one in decided(around).steps if isinstance(one, Patch)]
    failure = StepFailure(step, error, "no such field", transient=False, count=count)
    return decide(around, Facts({}, failure), NOW, settings=SETTINGS)


def test_a_kind_without_a_status_subresource_is_patched_itself() -> None:
    found = refused("NotFoundError")
    other, step = found.steps
    assert other == Send("b", KEY, Delete(WORKLOAD, KEY, "b-w"))
    assert isinstance(step, Patch) and step.subresource is None and not found.retry
    assert step.body["status"] == {"phase": "Running"}
    assert winner(found) == "a" and found.events == () and found.wake_at == NOW + timedelta(seconds=1)


def test_a_status_that_is_refused_is_left_out_and_reported_once() -> None:
    found = refused("InvalidError")
    assert orders(found) == [("b", Delete)] and len(found.steps) == 1 and found.retry
    assert winner(found) == "a" and found.wake_at == NOW + timedelta(seconds=1)
    (event,) = found.events
    assert (event.type, event.reason) == ("Warning", "StatusRefused")
    assert event.message == "the worker's status cannot be written: no such field"
    assert refused("InvalidError", 2).events == ()


def test_a_step_for_a_worker_that_fails_here_is_no_status() -> None:
    """Only a patch of the job's status can lack the subresource."""
    around = claimed(running())
    step = Patch(WORKLOAD, KEY, {}, subresource="status")
    failure = StepFailure(step, "NotFoundError", "no", transient=False, count=1)
    found = decide(around, Facts({}, failure), NOW, settings=SETTINGS)
    assert found.retry and [one.reason for one in found.events] == ["MultiKueue", "StatusRefused"]


def test_a_failure_for_a_time_is_retried() -> None:
    around = claimed(running())
    (step,) = decided(around).steps
    failure = StepFailure(step, "ServerError", "down", transient=True, count=1)
    assert decide(around, Facts({}, failure), NOW, settings=SETTINGS) == Decision(retry=True)


def test_a_copy_of_an_earlier_job_is_not_the_jobs() -> None:
    notes: Obj = {names.ATTEMPT: f"{AT}/0", names.JOB_UID: "j0"}
    stale = {**COPY, "metadata": {**COPY["metadata"], "annotations": notes}}
    found = decided(claimed(replace(running(), jobs=((TOY, stale),))))
    assert not [one for one in found.steps if isinstance(one, Patch)], "its status is not ours"
