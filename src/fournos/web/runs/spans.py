"""The timeline of a job: its phases, attempts and tasks, as lanes.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fournos.engine.kube.resource import Obj
from fournos.history.records import Interval
from fournos.insight.children import Children
from fournos.insight.tasks import Task, tasks
from fournos.insight.timeline import timeline
from fournos.insight.values import is_terminal, moment, name_of, one_line, short, status_of
from fournos.web.charts.gantt import GanttBar, Lane

_FIELDS: Final = ("name", "state", "started", "finished", "message", "pod")


@dataclass(frozen=True, slots=True)
class AttemptSpans:
    """An attempt of a job with its tasks."""

    number: int
    tasks: tuple[Task, ...] = ()
    cluster: str = ""
    start: datetime | None = None
    end: datetime | None = None
    outcome: str = ""
    """How it ended; "" while it runs."""
    message: str = ""


def attempts(job: Obj, by_run: Mapping[str, Sequence[Task]]) -> list[AttemptSpans]:
    """The attempts of a job; `by_run` has the tasks of each PipelineRun that is known."""
    spans = []
    for attempt in status_of(job).get("attempts") or ():
        spans.append(
            AttemptSpans(
                int(attempt.get("number") or 0),
                tuple(by_run.get(str(attempt.get("pipelineRun")), ())),
                str(attempt.get("cluster") or ""),
                moment(attempt.get("startedAt")),
                moment(attempt.get("finishedAt")),
                str(attempt.get("outcome") or ""),
                one_line(attempt.get("message")),
            )
        )
    return spans


def live_tasks(found: Children) -> dict[str, list[Task]]:
    """PipelineRun → its tasks, of the runs that exist."""
    return {name_of(run): tasks(run, found.task_runs) for run in found.runs}


def recorded_tasks(document: Any) -> dict[str, list[Task]]:
    """PipelineRun → its tasks, from the document of the history."""
    return {
        str(run.get("run")): [
            Task(**{name: str(task.get(name) or "") for name in _FIELDS}, final=bool(task.get("final")))
            for task in run.get("tasks") or ()
        ]
        for run in document or ()
    }


def lanes(job: Obj, found: Iterable[AttemptSpans], now: datetime) -> list[Lane]:
    """Phases first, then each attempt with its tasks, the oldest first."""
    return [*_phases(job, now), *(lane for one in found for lane in _attempt(one, over=is_terminal(job)))]


def _phases(job: Obj, now: datetime) -> Iterator[Lane]:
    for entry in timeline(job, now):
        end = None if entry.current else entry.start + entry.length
        yield Lane(
            entry.phase,
            entry.phase,
            (GanttBar(entry.phase, entry.start, end, _text(entry.phase, entry.start, end)),),
        )


def _attempt(attempt: AttemptSpans, *, over: bool) -> Iterator[Lane]:
    state = attempt.outcome or "Running"
    bars: tuple[GanttBar, ...] = ()
    if attempt.start and (attempt.end or not over):
        bars = (
            GanttBar(
                state,
                attempt.start,
                attempt.end,
                _text(f"attempt {attempt.number}", attempt.start, attempt.end),
            ),
        )
    where = f"on {attempt.cluster}" if attempt.cluster else ""
    yield Lane(f"Attempt {attempt.number}", state, bars, " · ".join(filter(None, (where, attempt.message))))
    for task in attempt.tasks:
        start, end = moment(task.started), moment(task.finished)
        drawn = (
            (GanttBar(task.state, start, end, _text(task.name, start, end)),)
            if start and (end or not over)
            else ()
        )
        name = f"{task.name} (finally)" if task.final else task.name
        yield Lane(name, task.state, drawn, task.message, level=1)


def _text(name: str, start: datetime, end: datetime | None) -> str:
    length = f", {short(end - start)}" if end else ""
    return f"{name}: from {start:%H:%M:%S} UTC{length}"


@dataclass(frozen=True, slots=True)
class Wait:
    """An entry of the waiting ledger."""

    cause: str
    text: str
    start: datetime
    length: str
    """"" while it lasts."""


def waits(ledger: Iterable[Interval]) -> list[Wait]:
    return [
        Wait(one.cause.value, one_line(one.text), one.start, short(one.end - one.start) if one.end else "")
        for one in ledger
    ]


def waiting_lane(ledger: Iterable[Interval]) -> list[Lane]:
    """One lane with the whole ledger; none without entries."""
    bars = tuple(
        GanttBar(one.cause.value, one.start, one.end, f"{one.cause.value}: {one_line(one.text)}")
        for one in ledger
    )
    return [Lane("Waited for", "Waiting", bars)] if bars else []
