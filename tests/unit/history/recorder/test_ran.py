"""How long a job ran: lists, the history, the client, usage, explanations and metrics say the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fournos.api.kinds import FOURNOS_JOB, TASK_RUN
from fournos.api.phase import run_times
from fournos.client.views import JobView
from fournos.engine.kube.resource import Obj, key_of
from fournos.history.fingerprint import fingerprint_of
from fournos.history.recorder.observe import ObservedObject
from fournos.history.recorder.record import run_of
from fournos.history.records import recorded_row
from fournos.history.usage import of_job
from fournos.insight.children import Children
from fournos.insight.facts import WaitFacts
from fournos.insight.job_row import JobRow
from fournos.insight.reasons import explain
from fournos.systems.jobs.metrics import DURATION, JobMetrics
from tests.unit.cli.objects import NOW, ago, child, job
from tests.unit.systems.jobs.test_metrics import attached, caches, count

BEGAN, CONTAINER, ENDED = ago(seconds=29), ago(seconds=24), ago(seconds=20)


def ended_job(attempt: int = 1) -> Obj:
    """A job whose first container started 5 s after its run was made."""
    times = {"pending": ago(seconds=40), "admitted": ago(seconds=31), "running": BEGAN, "finished": ENDED}
    status = {"attempt": attempt, "phaseTimes": times}
    return {**job("one", "Succeeded", status=status), "kind": "FournosJob"}


def recorded(live: Obj) -> ObservedObject:
    step = {"name": "main", "terminated": {"startedAt": CONTAINER, "finishedAt": ENDED}}
    task = child("tekton.dev/v1", TASK_RUN.kind, "one-run", "uid-run", status={"steps": [step]})
    live["metadata"]["resourceVersion"] = "1"
    return ObservedObject(key_of(live), FOURNOS_JOB, live, children=Children(task_runs=(task,)))


class Viewed(JobView):
    def __init__(self, raw: Obj) -> None:
        self._raw = raw

    @property
    def raw(self) -> Obj:
        return self._raw


@pytest.mark.parametrize("attempt", [1, 2])
def test_all_readers_show_the_same(attempt: int) -> None:
    live = ended_job(attempt)
    assert run_times(live) == (BEGAN, ENDED)
    assert JobRow.of(live).ran == "9s"
    observed = recorded(live)
    run = run_of(observed, NOW, fingerprint_of(live))
    assert run.started_at is not None and run.ended_at is not None
    assert run.ended_at - run.started_at == timedelta(seconds=4), "the first wait ended with the container"
    assert recorded_row(JobRow, run).ran == "9s"
    assert "run of 9s" in explain(WaitFacts(live), NOW).verdict
    columns = Viewed(live)._columns()
    assert columns["finished"] - columns["started"] == timedelta(seconds=9)
    used = of_job(live)
    assert used is not None and used.end is not None and used.end - used.start == timedelta(seconds=9)
    counted, served = attached(caches())
    assert isinstance(counted, JobMetrics)
    counted.written(job("one", "Running", status={"phaseTimes": {"running": BEGAN}}), live)
    assert count(served, f"{DURATION.name}_sum", pipeline="other", phase="Succeeded") == 9


def test_a_run_that_an_earlier_version_recorded_counts_from_its_first_container() -> None:
    live = ended_job()
    older = replace(run_of(recorded(live), NOW, fingerprint_of(live)), running_at=None)
    assert recorded_row(JobRow, older).ran == "4s"


def test_a_job_that_waits_again_has_not_ended() -> None:
    waiting = job("one", "Pending", status={"phaseTimes": {"running": BEGAN, "finished": ENDED}})
    assert run_times(waiting) == (BEGAN, "")
