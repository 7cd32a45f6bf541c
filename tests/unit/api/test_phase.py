"""The table of phases: it alone knows them, and a phase that it lacks is read, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import fournos
from fournos.api.fournosjob import PhaseTimes
from fournos.api.phase import (
    ACTIVE,
    BEFORE_RUN,
    HOLDING,
    NEW,
    PHASE_TIME,
    RUNS,
    TERMINAL,
    UNQUEUED,
    Cause,
    Phase,
)
from fournos.cli.get import next_steps
from fournos.cli.output import progress
from fournos.cli.watch import ENDS
from fournos.insight.facts import WaitFacts
from fournos.insight.failure import WantedLogs, nothing
from fournos.insight.jobs import JobRow
from fournos.insight.reasons import explain
from fournos.insight.values import timeline
from fournos.systems.jobs.decide import _POLICIES
from fournos.systems.jobs.metrics import cause_of
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, ago, job
from tests.unit.systems.jobs.passes import a_job, decided, written

SOURCES: Final = Path(fournos.__file__).parent
"""Phases that no other kind has: a list with one of them is one of phases of FournosJobs."""
UNKNOWN: Final = "Paused"


def test_the_sets_of_the_table() -> None:
    assert {"Succeeded", "Failed", "Stopped"} == TERMINAL
    assert {"Admitted", "Running", "Stopping"} == HOLDING
    assert {"Running", "Stopping"} == RUNS
    assert {NEW, "Resolving"} == UNQUEUED
    assert {NEW, "Resolving", "Pending", "Admitted"} == BEFORE_RUN
    assert ACTIVE == BEFORE_RUN | RUNS


def test_each_phase_has_a_time_in_the_status_in_the_order_of_a_life() -> None:
    assert list(dict.fromkeys(PHASE_TIME.values())) == list(PhaseTimes.model_fields)


def test_what_readers_decide_by_phase_covers_the_table() -> None:
    assert {"", *ACTIVE} - {NEW} == _POLICIES.keys()
    assert ENDS.keys() == TERMINAL
    assert all(phase.traits.cause in {"", *Cause} for phase in Phase)
    styles = (SOURCES / "web/static/page.css").read_text()
    coloured = {phase for phase in Phase if f'.phase[data-phase="{phase.lower()}"]' in styles}
    assert coloured == {*Phase} - {Phase.STOPPED}, "a stopped job is as grey as the rest"


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_is_explained(phase: Phase) -> None:
    verdict = explain(WaitFacts(job(phase=phase)), NOW).verdict
    assert verdict != f"one is {phase}."


# --- a phase that a newer operator has written -----------------------------------------------------------


def paused() -> Any:
    times = {"resolving": ago(minutes=9), "running": ago(minutes=5), "paused": ago(minutes=1)}
    return job(phase=UNKNOWN, status={"cluster": "cluster-1", "phaseTimes": times, "message": "By somebody"})


@pytest.mark.parametrize("command", [("get", "one"), ("list",), ("explain", "one")])
def test_commands_show_an_unknown_phase(command: tuple[str, ...]) -> None:
    result = Program(Api(paused()))(*command)
    assert result.exit_code == 0, result.stderr
    assert UNKNOWN in result.stdout


def test_readers_of_one_job_take_an_unknown_phase() -> None:
    assert explain(WaitFacts(paused()), NOW).verdict == "one is Paused."
    assert [entry.phase for entry in timeline(paused(), NOW)] == ["Resolving", "Running"]
    assert "explain one" in next_steps(paused())[0].plain
    assert progress(paused(), [], NOW)
    assert nothing(paused(), WaitFacts(paused()).found, WantedLogs())
    assert cause_of(paused()) == ""
    assert JobRow.of(paused()).phase == UNKNOWN


def test_the_operator_leaves_a_job_in_an_unknown_phase_as_it_is() -> None:
    before = a_job(UNKNOWN)
    decision = decided(before)
    assert decision.steps == () and written(decision, "phase", "resolved") == (UNKNOWN, {})
    assert [(event.reason, event.message) for event in decision.events] == [
        ("UnknownPhase", "The phase Paused is of a newer operator: upgrade this one, or stop the job")
    ]
