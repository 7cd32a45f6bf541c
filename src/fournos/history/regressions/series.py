"""What regressions are looked for in, and what is found: series, and findings.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


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
        two; acknowledgements therefore go by `fournos.history.regressions.acknowledge`."""
        text = f"{self.series} {self.run} {self.rises}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def kind_of(before: float, after: float, higher_is_better: bool | None) -> Kind:
    if higher_is_better is None:
        return Kind.CHANGE
    return Kind.IMPROVEMENT if (after > before) == higher_is_better else Kind.REGRESSION
