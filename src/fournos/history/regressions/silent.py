"""Series that went silent: a benchmark that does not run any more shows no regression either.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import quantiles
from typing import Final

from fournos.history.regressions.group import runs_in_order
from fournos.history.regressions.series import Series
from fournos.insight.values import short

MIN_POINTS: Final = 5
FACTOR: Final = 3
LEAST: Final = timedelta(days=1)
"""Shorter silences are never reported."""


@dataclass(frozen=True, slots=True)
class Silence:
    series: str
    kpi_id: str
    last_run: str
    last_at: datetime
    reason: str


def silences(series: Iterable[Series], now: datetime) -> list[Silence]:
    """The silent series among the series of one fingerprint.

    A series is silent when no run has come for three times its usual interval (90 % of the intervals are
    shorter than that), or when the newest run lacks a KPI that the three runs before had.
    """
    usable = [each for each in series if len(each.points) >= MIN_POINTS]
    order = runs_in_order(usable)
    silent = []
    for each in usable:
        last = each.points[-1]
        reason = _overdue(each, now) or _missing(each, order)
        if reason:
            silent.append(Silence(each.id, each.kpi_id, last.run, last.at, reason))
    return silent


def _overdue(series: Series, now: datetime) -> str:
    gaps = [(later.at - earlier.at).total_seconds() for earlier, later in pairwise(series.points)]
    usual = timedelta(seconds=quantiles(gaps, n=10, method="inclusive")[-1])
    since = now - series.points[-1].at
    if since <= max(FACTOR * usual, LEAST):
        return ""
    return f"no run for {short(since)}; there was one every {short(usual)} or sooner"


def _missing(series: Series, order: list[str]) -> str:
    own = {point.run for point in series.points}
    *before, newest = order[-4:]
    if newest in own or not all(run in own for run in before):
        return ""
    return f"the newest run has no {series.kpi_id}"
