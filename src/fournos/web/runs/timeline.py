"""The time line of a job: waiting, attempts and tasks as spans, drawn as SVG.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from fournos.history.records import Run
from fournos.insight.children import Children, Task, tasks
from fournos.insight.values import Obj, is_terminal, moment, name_of, one_line, short, status_of, timeline
from fournos.web.charts import horizon, time_ticks

_HEIGHT: Final = 16
_THINNEST: Final = 0.4
"""Per cent of the width that the shortest bar has, so that it is seen."""
_LAST_LABEL: Final = 92.0
"""Per cent of the width beyond which the label of a tick does not fit."""
_BAR: Final = Markup(
    '<rect class="span" data-state="{}" x="{:.2f}%" y="1" width="{:.2f}%" height="{}" rx="3">'
    "<title>{}</title></rect>"
)
_LANE: Final = Markup('<svg class="lane" width="100%" height="{}" aria-hidden="true">{}</svg>')
_TICK: Final = Markup('<text class="tick" x="{:.2f}%" y="12">{}</text>')


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of a timeline: a span of time, once it has begun."""

    label: str
    state: str
    """The class of its colour."""
    start: datetime | None = None
    """None: it has not begun."""
    end: datetime | None = None
    """None: it goes on."""
    note: str = ""
    level: int = 0
    """The depth in the tree of rows."""

    @property
    def length(self) -> str:
        """Its time; "" while it goes on, or if it has not begun."""
        return short(self.end - self.start) if self.start and self.end else ""

    @property
    def text(self) -> str:
        """What a pointer on its bar shows."""
        begun = f"{self.label}: from {self.start:%H:%M:%S} UTC" if self.start else self.label
        return f"{begun}, {self.length}" if self.length else begun


@dataclass(frozen=True, slots=True)
class Gantt:
    """The lanes of a timeline, each with its drawing."""

    rows: tuple[tuple[Lane, Markup], ...]
    axis: Markup
    start: datetime
    end: datetime


def gantt(lanes: Sequence[Lane], now: datetime) -> Gantt | None:
    """Draws the lanes on one time axis; None if nothing has begun."""
    begun = [(lane, lane.start) for lane in lanes if lane.start]
    if not begun:
        return None
    start = min(at for _, at in begun)
    ends = [lane.end for lane, _ in begun if lane.end]
    if len(ends) < len(begun):
        end = datetime.fromtimestamp(horizon(start.timestamp(), now.timestamp()), start.tzinfo)
    else:
        end = max(ends)
    end = max(end, start + timedelta(seconds=1))
    return Gantt(tuple((lane, _lane(lane, start, end)) for lane in lanes), _axis(end - start), start, end)


def _lane(lane: Lane, start: datetime, end: datetime) -> Markup:
    bar = Markup()
    if lane.start:
        left = _share(lane.start, start, end)
        width = max(_THINNEST, _share(lane.end or end, start, end) - left)
        bar = _BAR.format(lane.state.lower(), min(left, 100 - width), width, _HEIGHT - 2, lane.text)
    return _LANE.format(_HEIGHT, bar)


def _share(at: datetime, start: datetime, end: datetime) -> float:
    return min(100.0, max(0.0, (at - start) / (end - start) * 100))


def _axis(length: timedelta) -> Markup:
    marks = [(at / length * 100, f"+{short(at)}" if at else "0") for at in time_ticks(length)]
    drawn = Markup().join(_TICK.format(x, text) for x, text in marks if x <= _LAST_LABEL)
    return Markup('<svg class="axis" width="100%" height="16" aria-hidden="true">{}</svg>').format(drawn)


# --- of a job -------------------------------------------------------------------------------------


_FIELDS: Final = ("name", "state", "started", "finished", "message", "pod")


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


def lanes(job: Obj, by_run: Mapping[str, Sequence[Task]], now: datetime) -> list[Lane]:
    """Phases first, then each attempt with its tasks, the oldest first.

    `by_run` has the tasks of each PipelineRun that is known.
    """
    shown = [
        Lane(one.phase, one.phase, one.start, None if one.current else one.start + one.length)
        for one in timeline(job, now)
    ]
    for attempt in status_of(job).get("attempts") or ():
        shown += _attempt(attempt, by_run, over=is_terminal(job))
    return shown


def _attempt(attempt: Obj, by_run: Mapping[str, Sequence[Task]], *, over: bool) -> Iterator[Lane]:
    where = f"on {attempt['cluster']}" if attempt.get("cluster") else ""
    note = " · ".join(filter(None, (where, one_line(attempt.get("message")))))
    state = str(attempt.get("outcome") or "Running")
    label = f"Attempt {int(attempt.get('number') or 0)}"
    yield Lane(label, state, *_span(attempt.get("startedAt"), attempt.get("finishedAt"), over=over), note)
    for task in by_run.get(str(attempt.get("pipelineRun")), ()):
        name = f"{task.name} (finally)" if task.final else task.name
        yield Lane(name, task.state, *_span(task.started, task.finished, over=over), task.message, level=1)


def _span(started: Any, finished: Any, *, over: bool) -> tuple[datetime | None, datetime | None]:
    """Returns begin and end; nothing of what has no end although the job is over."""
    start, end = moment(started), moment(finished)
    return (start, end) if end or not over else (None, None)


def waiting_lane(run: Run | None) -> list[Lane]:
    """One lane from the submission to the start, with what it waited for last; none without a wait."""
    if run is None or not run.waited_for:
        return []
    note = f"{run.waited_for}: {one_line(run.waited_for_text)}"
    return [Lane("Waited for", "Waiting", run.submitted_at, run.started_at or run.ended_at, note)]
