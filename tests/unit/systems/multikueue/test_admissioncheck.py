"""An AdmissionCheck with more workers than its status may have conditions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.engine.api.conditions import condition
from fournos.engine.runtime.decision import Decision, Facts
from fournos.systems.multikueue import names
from fournos.systems.multikueue.admissioncheck import Observed, Worker, decide

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORKERS = [f"w{number:02}" for number in range(names.MAX_WORKERS)]


def check(conditions: Any = ()) -> dict[str, Any]:
    return {
        "metadata": {"name": "c", "generation": 1},
        "spec": {},
        "status": {"conditions": list(conditions)},
    }


def decided(before: Any, lost: Any, seconds: float = 0) -> list[Any]:
    """Returns the conditions, with these workers lost."""
    workers = tuple(
        Worker(name, exists=True, probed=True, unusable_reason="no answer" if name in lost else "")
        for name in WORKERS
    )
    decision: Decision = decide(
        Observed(check(before), "", workers), Facts(), NOW + timedelta(seconds=seconds)
    )
    assert decision.status is not None
    return list(decision.status["conditions"])


def shown(conditions: list[Any], status: str) -> set[str]:
    prefix = names.WORKER_CONDITION
    return {
        one["type"].removeprefix(prefix)
        for one in conditions
        if one["type"].startswith(prefix) and one["status"] == status
    }


def test_usable_workers_are_left_out_and_lost_ones_are_not() -> None:
    lost = {"w00", "w10", "w19"}
    conditions = decided((), lost)
    assert len(conditions) == names.MAX_CONDITIONS
    assert shown(conditions, "False") == lost
    active = condition(check(conditions), "Active") or {}
    assert (active["status"], active["message"]) == ("True", "Inactive clusters: [w00 w10 w19]")


def test_a_worker_that_was_left_out_is_lost_from_the_moment_it_is_seen() -> None:
    before = decided((), ())
    assert "w19" not in shown(before, "True")
    found = condition(check(decided(before, {"w19"}, 60)), f"{names.WORKER_CONDITION}w19") or {}
    assert (found["status"], found["lastTransitionTime"]) == ("False", "2026-03-01T12:01:00Z")


def test_of_too_many_lost_workers_those_lost_first_keep_their_time_and_nothing_changes_any_more() -> None:
    first = decided((), WORKERS[5:], 0)
    later = decided(first, WORKERS, 60)
    assert shown(later, "False") == set(WORKERS[5:])
    assert decided(later, WORKERS, 120) == later


def test_few_workers_all_have_a_condition() -> None:
    workers = tuple(Worker(name, True, True, "") for name in WORKERS[:15])
    status = decide(Observed(check(), "", workers), Facts(), NOW).status
    assert status is not None
    assert shown(status["conditions"], "True") == set(WORKERS[:15])
