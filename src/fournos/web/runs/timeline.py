"""The time line of a job: waiting, attempts and tasks as spans, drawn as SVG.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class GanttBar:
    """A part of a lane."""

    state: str
    """The class of its colour."""
    start: datetime
    end: datetime | None
    """None: it goes on."""
    text: str = ""
    """What a pointer on it shows."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of a timeline."""

    label: str
    state: str
    bars: tuple[GanttBar, ...] = ()
    note: str = ""
    level: int = 0
    """The depth in the tree of rows."""

    @property
    def start(self) -> datetime | None:
        return min((bar.start for bar in self.bars), default=None)

    @property
    def length(self) -> str:
        """The time from its first to its last moment; "" while it goes on, or if it has not begun."""
        ends = [bar.end for bar in self.bars]
        if not ends or None in ends or self.start is None:
            return ""
        return short(max(end for end in ends if end) - self.start)


@dataclass(frozen=True, slots=True)
class GanttRow:
    """A lane with its drawing."""

    lane: Lane
    svg: Markup


@dataclass(frozen=True, slots=True)
class Gantt:
    rows: tuple[GanttRow, ...]
    axis: Markup
    start: datetime
    end: datetime


def gantt(lanes: Sequence[Lane], now: datetime) -> Gantt | None:
    """Draws the lanes on one time axis; None if nothing has begun."""
    bars = [bar for lane in lanes for bar in lane.bars]
    if not bars:
        return None
    start = min(bar.start for bar in bars)
    if any(bar.end is None for bar in bars):
        end = datetime.fromtimestamp(horizon(start.timestamp(), now.timestamp()), start.tzinfo)
    else:
        end = max(bar.end for bar in bars if bar.end)
    end = max(end, start + timedelta(seconds=1))
    return Gantt(
        tuple(GanttRow(lane, _lane(lane.bars, start, end)) for lane in lanes), _axis(end - start), start, end
    )


def _lane(bars: Iterable[GanttBar], start: datetime, end: datetime) -> Markup:
    drawn = Markup().join(_bar(bar, start, end) for bar in bars)
    return Markup('<svg class="lane" width="100%" height="{}" aria-hidden="true">{}</svg>').format(
        _HEIGHT, drawn
    )


def _bar(bar: GanttBar, start: datetime, end: datetime) -> Markup:
    left = _share(bar.start, start, end)
    width = max(_THINNEST, _share(bar.end or end, start, end) - left)
    left = min(left, 100 - width)
    shape = Markup(
        '<rect class="span" data-state="{}" x="{:.2f}%" y="1" width="{:.2f}%" height="{}" rx="3">{}</rect>'
    )
    title = Markup("<title>{}</title>").format(bar.text) if bar.text else ""
    return shape.format(bar.state.lower(), left, width, _HEIGHT - 2, title)


def _share(at: datetime, start: datetime, end: datetime) -> float:
    return min(100.0, max(0.0, (at - start) / (end - start) * 100))


def _axis(length: timedelta) -> Markup:
    marks = []
    for at in time_ticks(length):
        x = at / length * 100
        if x <= _LAST_LABEL:
            marks.append(
                Markup('<text class="tick" x="{:.2f}%" y="12">{}</text>').format(
                    x, f"+{short(at)}" if at else "0"
                )
            )
    return Markup('<svg class="axis" width="100%" height="16" aria-hidden="true">{}</svg>').format(
        Markup().join(marks)
    )


# --- of a job -------------------------------------------------------------------------------------


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


def waiting_lane(run: Run | None) -> list[Lane]:
    """One lane from the submission to the start, with what it waited for last; none without a wait."""
    if run is None or not run.waited_for:
        return []
    what = f"{run.waited_for}: {one_line(run.waited_for_text)}"
    bar = GanttBar(run.waited_for, run.submitted_at, run.started_at or run.ended_at, what)
    return [Lane("Waited for", "Waiting", (bar,), what)]
