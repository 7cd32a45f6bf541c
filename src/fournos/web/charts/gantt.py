"""The bars of a timeline, one SVG for each row of a table.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from fournos.insight.values import short
from fournos.web.charts.scale import horizon, time_ticks

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
