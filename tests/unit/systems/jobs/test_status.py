"""The status draft of a FournosJob."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fournos.api.fournosjob import Outcome
from fournos.systems.jobs.status import StatusDraft

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def draft(**status: Any) -> StatusDraft:
    meta = {"name": "job", "generation": 3}
    return StatusDraft({"metadata": meta, "spec": {"displayName": "Job"}, "status": status}, NOW)


def test_a_status_is_rendered_with_generation_and_display_name() -> None:
    found = draft(phase="Pending")
    assert found.render() == {"phase": "Pending", "observedGeneration": 3, "displayName": "Job"}
    found.put(phase=None)
    assert found.render() == {}, "the rendered fields are not part of the draft"


def test_it_is_read_by_types() -> None:
    found = draft(
        cluster="c",
        attempt=2,
        attempts=[{"number": 1, "outcome": "Failed"}, {"number": 2, "pipelineRun": "job-r2", "new": 1}],
        phaseTimes={"pending": "2026-01-01T00:00:00Z"},
        retryAt="2026-01-02T00:00:00Z",
        resolved={},
        conditions="spoiled",
    )
    assert (found.cluster, found.attempt, found.is_resolved) == ("c", 2, True)
    assert [one.outcome for one in found.attempts] == [Outcome.FAILED, None]
    assert (found.last_attempt.number, found.last_attempt.pipeline_run) == (2, "job-r2")
    assert found.phase_times.pending == datetime(2026, 1, 1, tzinfo=UTC)
    assert found.retry_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert found.stop_requested_at is None


def test_an_empty_status_is_read_by_types_too() -> None:
    found = draft()
    assert (found.cluster, found.attempt, found.attempts, found.is_resolved) == ("", 0, (), False)
    assert found.last_attempt.number == 0 and found.phase_times.pending is None and found.retry_at is None


def test_the_start_of_running_is_written_once() -> None:
    found = draft(phaseTimes={"pending": "2026-01-01T00:00:00Z"})
    found.started_running(NOW).started_running(datetime(2027, 1, 1, tzinfo=UTC))
    times = {"pending": "2026-01-01T00:00:00Z", "running": "2026-03-01T00:00:00Z"}
    assert found.render()["phaseTimes"] == times


def test_the_start_of_an_earlier_attempt_is_not_that_of_a_short_run() -> None:
    before, second = "2026-01-01T00:00:00Z", {"number": 2, "startedAt": "2026-02-01T00:00:00Z"}
    found = draft(attempt=2, attempts=[second], phaseTimes={"running": before}).started_running(NOW)
    assert found.render()["phaseTimes"] == {"running": "2026-03-01T00:00:00Z"}


def test_an_outcome_stands() -> None:
    found = draft(attempt=1, attempts=[{"number": 1}]).end_attempt("Evicted").end_attempt("Failed", "late")
    assert found.last_attempt.outcome is Outcome.EVICTED and found.last_attempt.message is None


def test_failed_attempts_are_kept_whatever_is_evicted_after_them() -> None:
    """`spec.retry` counts them."""
    found = draft()
    for number in range(1, 31):
        found.begin_attempt(cluster="c", workload=None, run=f"job-{number}")
        found.end_attempt("Failed" if number == 2 else "Evicted")
    assert [each.number for each in found.attempts] == [2, *range(12, 31)]


def test_nothing_is_rendered_of_an_empty_status() -> None:
    assert draft().render() == {}
