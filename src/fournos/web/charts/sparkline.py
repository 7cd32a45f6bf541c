"""The course of a KPI in the height of a line of text.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from fournos.web.charts.plot import in_words

WIDTH: Final = 120
HEIGHT: Final = 24
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
    step = (WIDTH - 2 * _EDGE) / max(1, len(values) - 1)

    def place(number: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        return _EDGE + number * step, HEIGHT - _EDGE - share * (HEIGHT - 2 * _EDGE)

    places = [place(number, value) for number, value in enumerate(values)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return _SVG.format(in_words(name, values, unit), WIDTH, HEIGHT, points, *places[-1])
