"""SVG made by the server: plots of KPIs, and small lines in tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from markupsafe import Markup

_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_TICKS: Final = 6
_FINEST: Final = 1e-12
"""Values whose difference is a smaller share of them have one text, and rounding errors for places."""


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round values between low and high, `most` at most."""
    if high - low <= max(abs(low), abs(high)) * _FINEST or high - low < sys.float_info.min * most:
        return [low]
    raw = (high - low) / max(1, most - 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * one for one in (1, 2, 5, 10) if size * one >= raw * 0.999999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def time_step(length: timedelta) -> timedelta:
    """A round distance between the ticks of a time axis."""
    seconds = length.total_seconds() / _MOST_TICKS
    found = next((step for step in _STEPS if step >= seconds), 0)
    return timedelta(seconds=found or math.ceil(seconds / 86400) * 86400)


def time_ticks(length: timedelta) -> Iterator[timedelta]:
    """The distances of the ticks from the beginning of a time axis."""
    step = time_step(length)
    at = timedelta()
    while at <= length:
        yield at
        at += step


def horizon(start: float, now: float) -> float:
    """The end of an axis for what still goes on: it moves seldom, so that an open page changes seldom."""
    step = max(5.0, _round_up((now - start) / 20))
    return start + math.ceil((now - start) / step + 0.001) * step


def _round_up(seconds: float) -> float:
    return float(next((step for step in _STEPS if step >= seconds), _STEPS[-1]))


# --- plots ----------------------------------------------------------------------------------------


WIDTH: Final = 640
HEIGHT: Final = 240
_LEFT: Final = 56
_RIGHT: Final = 12
_TOP: Final = 12
_BOTTOM: Final = 32
_TEXT: Final = Markup('<text x="{:.1f}" y="{}" text-anchor="{}">{}</text>')
_BAR: Final = Markup(
    '<rect class="dot series-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
    "<title>{}</title></rect>"
)
_DOT: Final = Markup('<circle class="dot series-{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}</title></circle>')
_OPENS: Final = Markup('<a href="{}" tabindex="-1">{}</a>')
"""Around the point of a run; by keyboard the table below leads there."""
_MARK: Final = Markup(
    '<line class="mark" data-state="{}" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"><title>{}</title></line>'
)
_LEVEL: Final = Markup(
    '<line class="baseline" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"><title>Baseline</title></line>'
)
_GRID: Final = Markup(
    '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
    '<text x="{}" y="{:.1f}" text-anchor="end">{:.4g}</text>'
)
Axis: TypeAlias = Callable[[float], float]
"""A value → its place in the drawing."""
_MOST_DOTS: Final = 64
"""Points of a line that are drawn as dots."""
COLOURS: Final = 8
"""Colours of lines in the style sheet; further lines begin with the first one again."""


@dataclass(frozen=True, slots=True)
class PlotLine:
    name: str
    points: Sequence[tuple[float, float]]
    """By ascending x."""


@dataclass(frozen=True, slots=True)
class PlotBand:
    """A range of y, such as that of noise."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A vertical line, such as a change point."""

    x: float
    state: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class PlotRun:
    """The run of a point."""

    name: str
    link: str
    """The address of its page."""


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    lines: Sequence[PlotLine]
    x_title: str = ""
    y_title: str = ""
    band: PlotBand | None = None
    marks: Sequence[PlotMark] = ()
    labels: Sequence[str] = ()
    """The texts of x = 0, 1, …; empty for a numeric axis."""
    runs: Sequence[PlotRun] = ()
    """The runs of x = 0, 1, …: a click on a point opens its run."""
    baseline: float | None = None
    """The value of the pinned run: a horizontal line."""
    bars: bool = False
    """True: its one line is drawn as bars."""

    @property
    def text(self) -> str:
        """The plot in words, for those who do not see it."""
        drawn = [line for line in self.lines if line.points]
        words = (in_words(line.name, [y for _, y in line.points], self.y_title) for line in drawn)
        return ". ".join([self.title, *words])

    @property
    def table(self) -> list[tuple[str, list[str], PlotRun | None]]:
        """Its values: each x with the y of every line, "" where a line has none, and the run of x."""
        values = [dict(line.points) for line in self.lines]
        return [
            (
                self.label(x),
                [f"{ys[x]:.6g}" if x in ys else "" for ys in values],
                self.runs[int(x)] if self.runs else None,
            )
            for x in sorted({x for line in self.lines for x, _ in line.points})
        ]

    @property
    def svg(self) -> Markup:
        return _draw(self)

    def label(self, x: float) -> str:
        return self.labels[int(x)] if self.labels else f"{x:.6g}"


def in_words(name: str, ys: Sequence[float], unit: str) -> str:
    """The values of a line in one phrase, for those who do not see it."""
    count = f"{len(ys)} value" if len(ys) == 1 else f"{len(ys)} values"
    ends = f"first {ys[0]:.4g}, last {ys[-1]:.4g}, lowest {min(ys):.4g}, highest {max(ys):.4g}"
    return f"{name}: {count}, {ends} {unit}".rstrip()


def _draw(plot: Plot) -> Markup:
    points = [point for line in plot.lines for point in line.points]
    if not points:
        return Markup()
    level = [] if plot.baseline is None else [plot.baseline]
    ys = [y for _, y in points]
    low, high = _range([*ys, *level, *([0.0] if plot.bars else [])], plot.band)
    room = 0.5 if plot.bars else 0.0
    left, right = min(x for x, _ in points) - room, max(x for x, _ in points) + room

    def across(x: float) -> float:
        share = (x - left) / (right - left) if right > left else 0.5
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        share = (y - low) / (high - low) if high > low else 0.5
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    parts: list[Markup] = []
    for y in ticks(low, high):
        parts.append(_GRID.format(_LEFT, WIDTH - _RIGHT, up(y), up(y), _LEFT - 6, up(y) + 4, y))
    if plot.band:
        top, bottom = up(plot.band.high), up(plot.band.low)
        parts.append(
            Markup('<rect class="band" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
                _LEFT, top, WIDTH - _LEFT - _RIGHT, max(1.0, bottom - top)
            )
        )
    for y in level:
        parts.append(_LEVEL.format(_LEFT, WIDTH - _RIGHT, up(y), up(y)))
    for mark in plot.marks:
        parts.append(
            _MARK.format(
                mark.state.lower(), across(mark.x), across(mark.x), _TOP, HEIGHT - _BOTTOM, mark.text
            )
        )
    if plot.bars:
        parts += _bars(points, across, up)
    else:
        for number, line in enumerate(plot.lines):
            parts.append(_line(plot, number % COLOURS, line, across, up))
    parts += _bottom(plot, left, right, across)
    return Markup('<svg class="plot" aria-hidden="true" viewBox="0 0 {} {}">{}</svg>').format(
        WIDTH, HEIGHT, Markup().join(parts)
    )


def _range(values: Sequence[float], band: PlotBand | None) -> tuple[float, float]:
    """Returns the range of an axis.

    It begins at 0 unless the values are far from it: a small change of a large value must be visible.
    """
    both = [*values, *((band.low, band.high) if band else ())]
    low, high = min(both), max(both)
    if low > 0 and (high - low) > 0.3 * high:
        low = 0.0
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    return (low if low == 0 else low - margin), high + margin


def _bars(points: Sequence[tuple[float, float]], across: Axis, up: Axis) -> Iterator[Markup]:
    for x, y in points:
        left, top = across(x - 0.4), up(y)
        yield _BAR.format(0, left, top, across(x + 0.4) - left, up(0) - top, f"{y:.4g}")


def _line(plot: Plot, colour: int, line: PlotLine, across: Axis, up: Axis) -> Markup:
    path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line.points)
    drawn = Markup('<polyline class="line series-{}" points="{}"/>').format(colour, path)
    if plot.runs or len(line.points) <= _MOST_DOTS:
        drawn += Markup().join(_point(plot, colour, line.name, x, y, across, up) for x, y in line.points)
    return drawn


def _point(plot: Plot, colour: int, name: str, x: float, y: float, across: Axis, up: Axis) -> Markup:
    """A point with its values for a pointer; that of a run leads to its page."""
    run = plot.runs[int(x)] if plot.runs else None
    words = [run.name if run else "", plot.label(x), f"{name}: {y:.6g} {plot.y_title}".rstrip()]
    dot = _DOT.format(colour, across(x), up(y), " · ".join(filter(None, words)))
    return _OPENS.format(run.link, dot) if run else dot


def _bottom(plot: Plot, left: float, right: float, across: Axis) -> list[Markup]:
    if plot.labels:
        last = len(plot.labels) - 1
        shown = [(0.0, plot.labels[0], "start")]
        shown += [(float(last), plot.labels[last], "end")] if last else []
    else:
        shown = [(x, f"{x:.4g}", "middle") for x in ticks(left, right, 6)]
    drawn = [_TEXT.format(across(x), HEIGHT - _BOTTOM + 14, anchor, label) for x, label, anchor in shown]
    if plot.x_title:
        drawn.append(_TEXT.format((_LEFT + WIDTH) / 2, HEIGHT - 4, "middle", plot.x_title))
    return drawn


# --- lines in tables ------------------------------------------------------------------------------


LINE_WIDTH: Final = 120
LINE_HEIGHT: Final = 24
_EDGE: Final = 3
"""Room for the dot of the newest value."""
_SVG: Final = Markup(
    '<svg class="sparkline" role="img" aria-label="{}" viewBox="0 0 {} {}">'
    '<polyline class="line series-0" points="{}"/>'
    '<circle class="dot series-0" cx="{:.1f}" cy="{:.1f}" r="2.5"/>'
    "</svg>"
)


def sparkline(name: str, values: Sequence[float], unit: str = "") -> Markup:
    """Draws the values, the oldest first, between the lowest and the highest; nothing without any."""
    if not values:
        return Markup()
    low, high = min(values), max(values)
    step = (LINE_WIDTH - 2 * _EDGE) / max(1, len(values) - 1)

    def place(number: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        return _EDGE + number * step, LINE_HEIGHT - _EDGE - share * (LINE_HEIGHT - 2 * _EDGE)

    places = [place(number, value) for number, value in enumerate(values)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return _SVG.format(in_words(name, values, unit), LINE_WIDTH, LINE_HEIGHT, points, *places[-1])
