"""Plots as SVG within HTML: curves, bars, and spans of time.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from fournos.history.offline import text

Points = Sequence[tuple[float, float]]

_WIDTH: Final = 640
_HEIGHT: Final = 240
_MARGIN: Final = 44
_ROW: Final = 22
_NAMES: Final = 200
"""Where the bars of a row begin, after its name."""
_LONGEST: Final = 28
"""Characters of a name."""
_LARGE: Final = 1e5
_LARGEST: Final = 1e15
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#17becf")


def number(value: float | None) -> str:
    """A value with five significant digits, or all of a larger number's before the point."""
    if value is None:
        return "-"
    return f"{value:.0f}" if _LARGE <= abs(value) < _LARGEST else f"{value:.5g}"


def curves(title: str, named: Sequence[tuple[str, Points]]) -> str:
    """Curves over a common x, with a legend; an empty one has only its name there."""
    points = [point for _, curve in named for point in curve]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(0.0, *(y for _, y in points)), max(y for _, y in points)

    def place(x: float, y: float) -> str:
        across = (x - left) / (right - left) if right > left else 0.5
        up = (y - low) / (high - low) if high > low else 0.5
        return (
            f"{_MARGIN + across * (_WIDTH - 2 * _MARGIN):.1f},"
            f"{_HEIGHT - _MARGIN - up * (_HEIGHT - 2 * _MARGIN):.1f}"
        )

    lines, legend = [], []
    for index, (name, curve) in enumerate(named):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(place(x, y) for x, y in curve)
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        legend.append(f'<span style="color:{colour}">&#9632;</span> {text(name)}')
    axes = (
        f'<text x="{_MARGIN}" y="{_HEIGHT - 12}">{number(left)}</text>'
        f'<text x="{_WIDTH - _MARGIN}" y="{_HEIGHT - 12}" text-anchor="end">{number(right)}</text>'
        f'<text x="4" y="{_HEIGHT - _MARGIN}">{number(low)}</text>'
        f'<text x="4" y="{_MARGIN}">{number(high)}</text>'
    )
    return _figure(title, "".join(lines) + axes, _HEIGHT, legend)


def bars(title: str, named: Sequence[tuple[str, float]]) -> str:
    """One bar for each value, from 0."""
    low, high = min(0.0, *(value for _, value in named)), max(0.0, *(value for _, value in named))
    scale = (_WIDTH - _NAMES - 80) / ((high - low) or 1.0)
    parts = []
    for index, (name, value) in enumerate(named):
        begin, length = _NAMES + (min(value, 0.0) - low) * scale, max(1.0, abs(value) * scale)
        parts += [
            _label(4, index, name),
            _bar(begin, index, length, COLOURS[0]),
            _label(begin + length + 6, index, number(value)),
        ]
    return _figure(title, "".join(parts), (len(named) + 1) * _ROW)


def spans(title: str, named: Sequence[tuple[str, datetime, datetime]], shown: Sequence[str]) -> str:
    """One bar for each span of time, below each other; `shown` are the texts behind the bars."""
    first, last = min(start for _, start, _ in named), max(end for _, _, end in named)
    scale = (_WIDTH - _NAMES - 80) / ((last - first).total_seconds() or 1.0)
    parts = []
    for index, ((name, start, end), behind) in enumerate(zip(named, shown, strict=True)):
        begin = _NAMES + (start - first).total_seconds() * scale
        length = max(1.0, (end - start).total_seconds() * scale)
        parts += [
            _label(4, index, name),
            _bar(begin, index, length, COLOURS[index % len(COLOURS)]),
            _label(begin + length + 6, index, behind),
        ]
    return _figure(title, "".join(parts), (len(named) + 1) * _ROW)


def _bar(x: float, row: int, width: float, colour: str) -> str:
    top = _ROW * row + _ROW / 2
    return f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_ROW - 6}" fill="{colour}"/>'


def _label(x: float, row: int, value: str) -> str:
    cut = value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"
    return f'<text x="{x:.1f}" y="{_ROW * (row + 1):.1f}">{text(cut)}</text>'


def _figure(title: str, content: str, height: int, legend: Sequence[str] = ()) -> str:
    caption = "<br>".join([text(title), *([" &#160; ".join(legend)] if legend else [])])
    return (
        f"<figure><figcaption>{caption}</figcaption>"
        f'<svg role="img" aria-label="{text(title)}" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}">{content}</svg></figure>'
    )
