"""Round numbers for axes.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round values between low and high, `most` at most."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, most - 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * one for one in (1, 2, 5, 10) if size * one >= raw * 0.999999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def time_step(length: timedelta, most: int = 6) -> timedelta:
    """A round distance between the ticks of a time axis."""
    seconds = length.total_seconds() / most
    found = next((step for step in _STEPS if step >= seconds), 0)
    return timedelta(seconds=found or math.ceil(seconds / 86400) * 86400)


def time_ticks(length: timedelta, most: int = 6) -> Iterator[timedelta]:
    """The distances of the ticks from the beginning of a time axis."""
    step = time_step(length, most)
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
