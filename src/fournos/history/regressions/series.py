"""Series of KPIs, what is found in them, findings of one cause, and series that went silent.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from statistics import quantiles
from typing import Final

from fournos.insight.values import count, short


@dataclass(frozen=True, slots=True)
class Point:
    """The value of one run that succeeded.  Failed and warm-up runs are not among the points."""

    run: str
    """Identifies the run: cluster, namespace and UID as one text."""
    at: datetime
    value: float
    confirms: str = ""
    """The run that this one repeats in order to confirm a suspicion; "" for any other run."""
    other_images: tuple[str, ...] = ()
    """The images that a rerun does not have in common with that run: it is not a repeat of it then."""


def labels_text(labels: Mapping[str, str]) -> str:
    """Returns the labels of a series for people, by name: `load=light, model=a`."""
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


def with_labels(kpi_id: str, labels: Mapping[str, str]) -> str:
    """Returns how a series is named in sentences: its KPI, and its labels where it has any."""
    return f"{kpi_id} ({labels_text(labels)})" if labels else kpi_id


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one KPI in comparable runs, the oldest first."""

    id: str
    """`fournos.history.results.models.series_id`."""
    kpi_id: str
    points: tuple[Point, ...]
    unit: str = ""
    higher_is_better: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Kind(StrEnum):
    REGRESSION = "Regression"
    IMPROVEMENT = "Improvement"
    CHANGE = "Change"
    """The direction of the KPI is not stated."""


class SeriesState(StrEnum):
    SUSPECTED = "Suspected"
    CONFIRMED = "Confirmed"
    REFUTED = "Refuted"
    """Repeats of the run are within noise."""


class Basis(StrEnum):
    """What a finding is based on."""

    NEWEST = "newest run"
    REPEATS = "repeats"
    CHANGE_POINT = "change point"
    BASELINE = "baseline"
    """The newest runs are away from the pinned baseline: a slow change, which no single step shows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of one series."""

    series: str
    kpi_id: str
    kind: Kind
    state: SeriesState
    basis: Basis
    run: str
    """The first run at the new level."""
    at: datetime
    before: float
    after: float
    change: float | None
    """The relative change; None from 0."""
    p: float | None = None
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    earlier: int = 0
    """The number of earlier runs that it is compared with."""
    uncounted: str = ""
    """Why reruns of the run are not repeats of it; "" if all are, or there are none."""
    recovered: str = ""
    """The run with which a later confirmed change brought the series back; "" while none has."""

    @property
    def rises(self) -> bool:
        return self.after > self.before

    @property
    def id(self) -> str:
        """Identifies the finding for links.  It is not stable: a later run may move a change point by one or
        two; acknowledgements therefore go by `fournos.history.regressions.review`."""
        text = f"{self.series} {self.run} {self.rises}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def kind_of(before: float, after: float, higher_is_better: bool | None) -> Kind:
    if higher_is_better is None:
        return Kind.CHANGE
    return Kind.IMPROVEMENT if (after > before) == higher_is_better else Kind.REGRESSION


NEAR: Final = 2
"""Change points of one cause may lie so many runs apart, as each KPI has noise of its own."""


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings that began with the same run."""

    run: str
    findings: tuple[Finding, ...]
    """Regressions first, the largest change first."""

    @property
    def kind(self) -> Kind:
        """The worst kind among the findings."""
        kinds = {found.kind for found in self.findings}
        return next(kind for kind in Kind if kind in kinds)

    @property
    def state(self) -> SeriesState:
        """Confirmed if any finding is, refuted if all are."""
        states = {found.state for found in self.findings}
        order = (SeriesState.CONFIRMED, SeriesState.SUSPECTED, SeriesState.REFUTED)
        return next(state for state in order if state in states)

    def __str__(self) -> str:
        first = self.findings[0]
        more = f" and {count(len(self.findings) - 1, 'more KPI')}" if len(self.findings) > 1 else ""
        notes = dict.fromkeys(one.uncounted for one in self.findings if one.uncounted)
        note = f"; {'; '.join(notes)}" if notes else ""
        series = with_labels(first.kpi_id, first.labels)
        return f"{self.kind} {self.state.lower()}: {series} {size(first)}{more}{note}"


def size(finding: Finding) -> str:
    """Returns the change in percent; from 0 there is no such number."""
    return "from 0" if finding.change is None else f"{finding.change:+.1%}"


def runs_in_order(series: Iterable[Series]) -> list[str]:
    """Returns all runs of the series, the oldest first."""
    found = {point.run: point.at for one in series for point in one.points}
    return sorted(found, key=lambda run: (found[run], run))


def group(findings: Iterable[Finding], order: Sequence[str]) -> list[FindingGroup]:
    """Joins findings whose runs are at most NEAR apart.  The newest group comes first.

    `order` has all runs, the oldest first.
    """
    place = {run: index for index, run in enumerate(order)}
    ordered = sorted(findings, key=lambda finding: (place[finding.run], finding.kpi_id, finding.series))
    parts: list[list[Finding]] = []
    for finding in ordered:
        if parts and place[finding.run] - place[parts[-1][0].run] <= NEAR:
            parts[-1].append(finding)
        else:
            parts.append([finding])
    return [FindingGroup(part[0].run, tuple(sorted(part, key=_weight))) for part in reversed(parts)]


def _weight(found: Finding) -> tuple[int, float, str, str]:
    size = float("inf") if found.change is None else abs(found.change)
    return list(Kind).index(found.kind), -size, found.kpi_id, found.series


MIN_POINTS: Final = 5
FACTOR: Final = 3
LEAST: Final = timedelta(days=1)
"""Shorter silences are never reported."""


def silences(series: Iterable[Series], now: datetime) -> dict[str, str]:
    """Returns the id of each silent series among those of one fingerprint, and why it is silent.

    A series is silent when no run has come for three times its usual interval (90 % of the intervals are
    shorter than that), or when the newest run lacks a KPI that the three runs before had.
    """
    usable = [each for each in series if len(each.points) >= MIN_POINTS]
    order = runs_in_order(usable)
    silent: dict[str, str] = {}
    for each in usable:
        reason = _overdue(each, now) or _missing(each, order)
        if reason:
            silent[each.id] = reason
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
