"""Single decisions: edits, suspension, the clock, refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import (
    Answer,
    Create,
    Decision,
    Delete,
    Facts,
    LiveGet,
    LiveList,
    Present,
    Question,
    StepFailure,
    Unknown,
)
from fournos.systems.schedules.decide import decide
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TIME_LABEL
from fournos.systems.schedules.observe import Observed
from fournos.systems.schedules.settings import ScheduleSettings
from tests.unit.systems.schedules.actors import ENGINE, KEY, NS, SETTINGS, schedule

NOW = datetime(2030, 1, 2, 2, 0, 5, tzinfo=UTC)
TONIGHT, LAST_NIGHT = "2030-01-02T02:00:00Z", "2030-01-01T02:00:00Z"
ALL = LiveList(FOURNOS_JOB, NS, f"{SCHEDULE_UID_LABEL}=uid-1")
ACCEPTED = {"type": "Accepted", "status": "True", "reason": "Valid"}
SEEN = {"observedGeneration": 1, "effectiveSince": "2030-01-01T00:00:00Z", "conditions": [ACCEPTED]}
RAN = {**SEEN, "lastScheduleTime": LAST_NIGHT, "lastStartTime": LAST_NIGHT}
CLAIM = {"time": TONIGHT, "startedAt": "2030-01-02T02:00:05Z", "jobs": 1}
CLAIMED = {**RAN, "lastScheduleTime": TONIGHT, "lastStartTime": TONIGHT, "active": [CLAIM]}


def job(phase: str = "", *, time: str = "203001010200", name: str = "", **status: Any) -> Obj:
    labels = {SCHEDULE_UID_LABEL: "uid-1", TIME_LABEL: time}
    meta = {"name": name or f"nightly-{time}", "namespace": NS, "uid": f"job-{time}", "labels": labels}
    return {"metadata": {**meta, "resourceVersion": "5"}, "spec": {}, "status": {"phase": phase, **status}}


def look(
    status: Any = RAN,
    *jobs: Obj,
    now: datetime = NOW,
    generation: int = 1,
    answers: dict[Question, Answer] | None = None,
    failure: StepFailure | None = None,
    settings: ScheduleSettings = SETTINGS,
    **spec: Any,
) -> Decision:
    given = schedule(**spec)
    given["metadata"] |= {
        "uid": "uid-1",
        "generation": generation,
        "resourceVersion": "9",
        "creationTimestamp": "2030-01-01T00:00:00Z",
    }
    given["status"] = status
    known = {ALL: Present(jobs), LiveGet(FOURNOS_SCHEDULE, KEY): Present(given), **(answers or {})}
    observed = Observed(given, FournosScheduleSpec.model_validate(given["spec"]), "", jobs)
    return decide(observed, Facts(known, failure), now, settings=settings)


def wrote(decision: Decision) -> dict[str, Any]:
    return dict(decision.status or {})


def test_an_edit_between_a_time_and_its_start_keeps_the_time_that_it_has_as_well() -> None:
    came = {**RAN, "nextTime": TONIGHT}
    edited = look(came, generation=2, matrix={"params.model": ["a", "b"]})
    assert [fire["time"] for fire in wrote(edited)["active"]] == [TONIGHT]
    assert wrote(edited)["active"][0]["jobs"] == 2, "as it is now"
    moved = look(came, generation=2, schedules=["0 3 * * *"])
    assert "active" not in wrote(moved) and wrote(moved)["nextTime"] == "2030-01-02T03:00:00Z"
    late = look(came, generation=2, now=NOW + timedelta(hours=13))
    assert "active" not in wrote(late) and wrote(late)["missed"]["count"] == 1
    assert "active" not in wrote(look(RAN, generation=2)), "it was suspended until now"


def test_the_claim_comes_first_and_alone() -> None:
    found = look()
    assert found.steps == () and wrote(found)["active"] == [CLAIM]
    assert wrote(found)["lastScheduleTime"] == TONIGHT


def test_then_the_jobs_and_a_note_that_they_were_created() -> None:
    found = look(CLAIMED)
    (step,) = found.steps
    assert isinstance(step, Create) and step.body["metadata"]["name"] == "nightly-203001020200"
    assert wrote(found)["active"] == [{**CLAIM, "created": True}]


def test_an_old_view_of_the_schedule_creates_nothing() -> None:
    newer = {"metadata": {"resourceVersion": "10"}}
    found = look(CLAIMED, answers={LiveGet(FOURNOS_SCHEDULE, KEY): Present(newer)})
    assert found.steps == () and found.status is None and found.retry


def test_while_jobs_cannot_be_listed_nothing_is_taken_up() -> None:
    found = look(answers={ALL: Unknown("etcd")})
    assert found == Decision(retry=True)


# --- edits, suspension, the clock ----------------------------------------------------------------------


def test_an_edited_schedule_is_due_from_the_edit_on() -> None:
    found = look(generation=2, schedules=["0 1 * * *"])
    assert found.steps == () and "active" not in wrote(found) and "missed" not in wrote(found)
    assert wrote(found)["nextTime"] == "2030-01-03T01:00:00Z"
    assert wrote(found)["effectiveSince"] == "2030-01-02T02:00:05Z"


def test_a_suspended_schedule_does_nothing_and_makes_up_for_nothing() -> None:
    held = look(suspend={"reason": "maintenance"})
    assert held.steps == () and held.wake_at is None and "active" not in wrote(held)
    resumed = look(generation=2)
    assert "active" not in wrote(resumed) and wrote(resumed)["nextTime"] == "2030-01-03T02:00:00Z"


def test_a_suspension_with_an_end_goes_on_by_itself() -> None:
    until = {"until": "2030-01-02T02:00:03Z"}
    over = look(suspend=until)
    assert "active" not in wrote(over), "02:00 was before the end"
    before = look(suspend={"until": "2030-01-05T00:00:00Z"})
    assert (
        wrote(before)["nextTime"] == "2030-01-05T02:00:00Z" == before.wake_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    )  # type: ignore[union-attr]


def test_a_clock_that_was_ahead_is_waited_for_unless_somebody_edits() -> None:
    ahead = {**RAN, "lastScheduleTime": "2031-01-01T02:00:00Z", "lastStartTime": "2031-01-01T02:00:00Z"}
    assert wrote(look(ahead))["nextTime"] == "2031-01-02T02:00:00Z"
    assert wrote(look(ahead, generation=2))["nextTime"] == "2030-01-03T02:00:00Z"


def test_at_rest_nothing_is_asked_and_nothing_is_written() -> None:
    rest = {**RAN, "nextTime": "2030-01-02T02:00:00Z"}
    found = look(rest, now=NOW - timedelta(hours=1), answers={ALL: Unknown("must not be asked")})
    assert found.steps == () and wrote(found) == rest and not found.retry
    assert found.wake_at == datetime(2030, 1, 2, 2, tzinfo=UTC)


def test_a_spec_that_cannot_work_is_said_once_and_waits_for_a_change() -> None:
    found = look(timeZone="Europe/Bonn")
    (condition,) = wrote(found)["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Invalid") and found.wake_at is None
    assert "no time zone" in condition["message"] and [event.reason for event in found.events] == ["Invalid"]
    again = look(wrote(found), timeZone="Europe/Bonn")
    assert again.events == () and wrote(again) == wrote(found)


def test_jobs_that_could_never_be_created_are_said_at_once_and_looked_at_once_a_generation() -> None:
    no_cluster = {"spec": {"executionEngine": ENGINE, "exclusive": True}}
    found = look(SEEN, generation=2, jobTemplate=no_cluster)
    (condition,) = wrote(found)["conditions"]
    assert condition["status"] == "False" and "spec.jobTemplate.spec.cluster" in condition["message"]
    assert "active" not in wrote(found) and found.steps == ()
    refused = wrote(look({}, jobTemplate=no_cluster))
    corrected = wrote(look(refused, generation=2))
    assert corrected["effectiveSince"] == "2030-01-02T02:00:05Z" and "active" not in corrected
    accepted = look(SEEN, jobTemplate=no_cluster)
    assert wrote(accepted)["active"] == [CLAIM], "a generation that was accepted is not looked at again"


# --- refusals ------------------------------------------------------------------------------------------


def refused(error: str, *, transient: bool = False) -> StepFailure:
    (step,) = look(CLAIMED).steps
    return StepFailure(step, error, "because", transient=transient, count=1)


@pytest.mark.parametrize("error", ["InvalidError", "ForbiddenError", "ForeignObject"])
def test_a_refused_job_is_given_up_with_an_event(error: str) -> None:
    found = look(CLAIMED, failure=refused(error))
    assert found.steps == () and wrote(found)["active"] == [{**CLAIM, "refused": [0]}]
    (event,) = found.events
    assert event.message == "FournosJob nightly-203001020200 could not be created: because"
    after = look(wrote(look(wrote(found))))
    assert wrote(after)["lastFire"] == {
        "time": TONIGHT,
        "outcome": "Failed",
        "message": "1 of 1 jobs could not be created",
    }
    assert wrote(after)["failures"] == 1


def test_a_failure_that_passes_is_retried() -> None:
    assert look(CLAIMED, failure=refused("ServerError", transient=True)) == Decision(retry=True)


def test_a_refused_deletion_does_not_hold_the_schedule_back() -> None:
    limits = {"succeeded": 0}
    old = job("Succeeded")
    (step,) = look(RAN, old, historyLimits=limits).steps
    assert isinstance(step, Delete) and step.uid == "job-203001010200"
    failure = StepFailure(step, "ForbiddenError", "no", transient=False, count=1)
    found = look(RAN, old, historyLimits=limits, failure=failure)
    assert found.steps == () and wrote(found)["active"] == [CLAIM]


def test_with_a_history_only_recorded_jobs_are_deleted() -> None:
    careful = SETTINGS.model_copy(update={"archived_first": True})
    limits = {"succeeded": 0}
    assert look(RAN, job("Succeeded"), historyLimits=limits, settings=careful).steps == ()
    recorded = job("Succeeded", archivedAt=LAST_NIGHT)
    assert look(RAN, recorded, historyLimits=limits, settings=careful).steps


# --- what is active ------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["", "Pending", "Admitted", "Running", "Stopping"])
def test_waiting_jobs_are_active_and_so_are_reruns(phase: str) -> None:
    status = {**RAN, "active": [{**CLAIM, "time": LAST_NIGHT, "created": True}]}
    rerun = job(phase, name="nightly-203001010200-confirm1-abc")
    found = look(status, job("Succeeded"), rerun)
    assert wrote(found)["missed"]["reason"] == "Overlap" and len(wrote(found)["active"]) == 1


@pytest.mark.parametrize("policy", ["Allow", "Replace"])
@pytest.mark.parametrize(("fires", "begins"), [(9, True), (10, False)])
def test_the_number_of_active_fires_is_bounded(policy: str, fires: int, begins: bool) -> None:
    times = [f"2030-01-01T{hour:02}:00:00Z" for hour in range(3, 3 + fires)]
    active = [{**CLAIM, "time": time, "created": True} for time in times]
    jobs = [job("Running", time=f"20300101{hour:02}00") for hour in range(3, 3 + fires)]
    found = wrote(look({**RAN, "active": active}, *jobs, concurrencyPolicy=policy))
    assert len(found["active"]) == 10 and ("missed" not in found) == begins


def test_an_older_fire_that_ends_later_does_not_hide_the_newer_one() -> None:
    older = {**CLAIM, "time": LAST_NIGHT, "created": True}
    status = {**CLAIMED, "active": [older], "lastFire": {"time": TONIGHT, "outcome": "Failed"}}
    found = look(status, job("Succeeded"))
    assert wrote(found)["lastFire"]["time"] == TONIGHT and wrote(found)["lastSuccessTime"] == LAST_NIGHT


def test_a_deleted_job_ends_its_fire_only_if_the_api_server_has_none() -> None:
    status = {**CLAIMED, "active": [{**CLAIM, "created": True}]}
    hidden = look(status, answers={ALL: Present((job("Running", time="203001020200"),))})
    assert len(wrote(hidden)["active"]) == 1
    gone = look(status)
    assert wrote(gone)["lastFire"]["outcome"] == "Stopped"
    assert wrote(gone)["lastFire"]["message"] == "deleted before it was seen to end: nightly-203001020200"
    assert "failures" not in wrote(gone)
    assert wrote(look(status, answers={ALL: Unknown("etcd")}))["active"], "nothing is known"
