"""The results of a run as tables and plots.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fournos.history.results.models import Kpi, Test
from fournos.insight.values import number
from fournos.web.charts.plot import Plot, PlotLine
from fournos.web.runs.courses import NOTHING, Courses, KpiCourse
from fournos.web.runs.texts import direction

MOST: Final = 50
"""Tests that are shown; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Scalar:
    kpi: str
    title: str
    value: str
    unit: str
    better: str
    """Which direction is better; "" if it is not stated."""
    course: KpiCourse | None = None
    """None if the run is not a point of a series."""


@dataclass(frozen=True, slots=True)
class Curve:
    title: str
    plot: Plot
    points: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ShownTest:
    """One test of a job."""

    labels: Sequence[tuple[str, str]]
    success: bool
    message: str
    scalars: Sequence[Scalar]
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class Measured:
    tests: Sequence[ShownTest]
    left_out: int
    """Tests beyond those that are shown."""


def shown_results(records: Iterable[Test], course: Courses = NOTHING) -> Measured:
    tests = list(records)
    return Measured([_test(record, course) for record in tests[:MOST]], max(0, len(tests) - MOST))


def _test(record: Test, course: Courses) -> ShownTest:
    return ShownTest(
        labels=sorted(record.all_labels.items()),
        success=record.success,
        message=record.message,
        scalars=[_scalar(kpi, course.of(record, kpi)) for kpi in record.kpis if not kpi.is_curve],
        curves=[_curve(kpi) for kpi in record.kpis if kpi.is_curve],
    )


def _scalar(kpi: Kpi, course: KpiCourse | None) -> Scalar:
    better = direction(kpi.higher_is_better)
    return Scalar(kpi.kpi_id, kpi.name or kpi.kpi_id, number(kpi.value), kpi.unit, better, course)


def _curve(kpi: Kpi) -> Curve:
    title = kpi.name or kpi.kpi_id
    plot = Plot(title, [PlotLine(title, kpi.values)], x_title=kpi.x_unit or kpi.x_help, y_title=kpi.y_unit)
    return Curve(title, plot, [(number(x), number(y)) for x, y in kpi.values])
