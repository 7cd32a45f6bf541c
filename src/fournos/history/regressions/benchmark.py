"""How benchmarks stand, and the state of each series in words.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import Final

from fournos.history.records import Run, api_row, uid_in
from fournos.history.regressions.change_points import band, relative
from fournos.history.regressions.judge import Report, Short
from fournos.history.regressions.review import Acknowledgement, SeriesReview, is_open
from fournos.history.regressions.series import (
    Finding,
    FindingGroup,
    Kind,
    Series,
    SeriesState,
    runs_in_order,
    silences,
    size,
)

STEADY: Final = "steady"
"""The state of a series without an open change."""


def lines(
    groups: Iterable[FindingGroup],
    names: Mapping[str, str] | None = None,
    covered: Mapping[str, Acknowledgement] | None = None,
) -> list[str]:
    """One line for each group, with the name of the run that it began with.

    `names` maps runs to their names, `covered` the ids of findings to their acknowledgements.
    """
    return [_line(group, names or {}, covered or {}) for group in groups]


def state_of(series: Series, report: Report, covered: Mapping[str, Acknowledgement]) -> str:
    """Returns in one phrase how a series stands: its newest open change, why it is not judged, or steady."""
    short = short_of(series, report)
    for finding in report.findings:
        if finding.series == series.id and is_open(finding, covered.get(finding.id)):
            return f"{finding.kind} {finding.state.lower()} {extent(finding, short)}"
    return str(short) if short else STEADY


def short_of(series: Series, report: Report) -> Short | None:
    """Returns why a series is not judged; None if it is."""
    return next((short for short in report.short if short.series == series.id), None)


def extent(finding: Finding, short: Short | None) -> str:
    """Returns how large a change is, and of how many runs since, where they are too few."""
    counted = f", {short.points} of {short.needed} runs since" if short and short.changed else ""
    return f"{size(finding)}{counted}"


def _line(joined: FindingGroup, names: Mapping[str, str], covered: Mapping[str, Acknowledgement]) -> str:
    name = names.get(joined.run, "")
    since = f"{joined} since {name}" if name else str(joined)
    back = joined.findings[0].recovered
    if back and all(finding.recovered for finding in joined.findings):
        return f"{since}; recovered with {names.get(back, 'a later run')}"
    acknowledgements = [covered.get(one.id) for one in joined.findings]
    newest = max((one for one in acknowledgements if one), key=lambda one: one.made_at, default=None)
    if newest is None:
        return since
    part = (
        "acknowledged"
        if all(acknowledgements)
        else f"{sum(map(bool, acknowledgements))} of them acknowledged"
    )
    return f"{since}; {part} by {newest.by}: {newest.reason}"


SHOWN: Final = 40
"""Newest values of a series that are shown."""


class BenchmarkState(StrEnum):
    """The state of a benchmark or of one of its KPIs, the most urgent one first."""

    REGRESSION = "Regression"
    """A confirmed regression is open."""
    SUSPECTED = "Suspected"
    """A suspected regression is open."""
    SILENT = "Silent"
    """It is not run any more, or its newest run lacks the KPI."""
    NOT_JUDGED = "NotJudged"
    """There are too few runs for a verdict."""
    STEADY = "Steady"

    @property
    def weight(self) -> int:
        return list(BenchmarkState).index(self)


FAILING: Final = frozenset({BenchmarkState.REGRESSION, BenchmarkState.SUSPECTED})


@api_row
@dataclass(frozen=True, slots=True)
class BenchmarkKpi:
    """One series at a glance."""

    kpi_id: str
    state: BenchmarkState
    text: str
    """The state in one phrase, such as `Regression confirmed +12.0%`."""
    detail: str
    """What the phrase says beyond the state, such as `+12.0%`; "" if that is nothing."""
    newest: float
    reference: float | None
    """The value of the pinned baseline, else that before an open change, else the median of the earlier runs
    that are shown; None without any."""
    change: float | None
    """The relative change from the reference to the newest value; None without a reference, or from 0."""
    values: tuple[float, ...]
    """The newest values, the oldest first."""
    noise: float | None = None
    """Half of the band of noise at the present level, relative to its middle: smaller changes are not found.
    None of too few values, or about 0."""
    unit: str = ""
    higher_is_better: bool | None = None
    labels: dict[str, str] = field(default_factory=dict)


@api_row
@dataclass(frozen=True, slots=True)
class Benchmark:
    """The comparable runs of one namespace at a glance."""

    run: Run
    """The newest one with results."""
    state: BenchmarkState
    kpis: tuple[BenchmarkKpi, ...]
    """What asks for somebody comes first."""
    runs: int
    """Runs that are judged."""
    baseline: str = ""
    """The name of the pinned run; "" without one."""
    silence: str = ""
    """Why it counts as silent; "" if it does not."""
    since: str = ""
    """The UID of the run with which the newest open regression began; "" without one."""
    since_name: str = ""
    before: str = ""
    """The UID of the comparable run before that one; "" without one."""


def benchmark_of(review: SeriesReview, names: Mapping[str, str], now: datetime) -> Benchmark:
    """Returns the state of a benchmark and of its KPIs.  `names` maps runs to their names."""
    report, covered, baseline = review.report, review.covered, review.baseline
    usable = [series for series in review.series if series.points]
    silent = silences(usable, now)
    regressions = open_regressions(report, covered)
    kpis = [
        _kpi(
            series,
            report,
            covered,
            next((finding for finding in regressions if finding.series == series.id), None),
            series.id in silent,
            review.baseline_values.get(series.id),
        )
        for series in usable
    ]
    kpis.sort(key=lambda kpi: (kpi.state.weight, kpi.kpi_id, sorted(kpi.labels.items())))
    order = runs_in_order(usable)
    since = regressions[0].run if regressions else ""
    place = order.index(since) if since in order else 0
    return Benchmark(
        review.run,
        kpis[0].state if kpis else BenchmarkState.NOT_JUDGED,
        tuple(kpis),
        len(order),
        baseline.run.name if baseline else "",
        next(iter(silent.values()), ""),
        uid_in(since),
        names.get(since, ""),
        uid_in(order[place - 1]) if place else "",
    )


def open_regressions(report: Report, covered: Mapping[str, Acknowledgement]) -> tuple[Finding, ...]:
    """Returns the regressions that are neither refuted nor recovered nor acknowledged, the newest first."""
    return tuple(
        finding
        for finding in report.findings
        if finding.kind is Kind.REGRESSION and is_open(finding, covered.get(finding.id))
    )


def in_order(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """Sorts benchmarks by the urgency of their state; within a state the given order stays."""
    return sorted(benchmarks, key=lambda benchmark: benchmark.state.weight)


def _kpi(
    series: Series,
    report: Report,
    covered: Mapping[str, Acknowledgement],
    regression: Finding | None,
    silent: bool,
    pinned: float | None,
) -> BenchmarkKpi:
    values = [point.value for point in series.points[-SHOWN:]]
    newest, earlier = values[-1], values[:-1]
    reference = pinned
    if reference is None:
        reference = regression.before if regression else median(earlier) if earlier else None
    short, text = short_of(series, report), state_of(series, report, covered)
    if regression:
        confirmed = regression.state is SeriesState.CONFIRMED
        state = BenchmarkState.REGRESSION if confirmed else BenchmarkState.SUSPECTED
        detail = extent(regression, short)
    elif silent:
        state, detail = BenchmarkState.SILENT, text
    elif short and not short.changed:
        state, detail = BenchmarkState.NOT_JUDGED, short.counted
    else:
        state, detail = BenchmarkState.STEADY, "" if text == STEADY else text
    return BenchmarkKpi(
        series.kpi_id,
        state,
        text,
        detail,
        newest,
        reference,
        None if reference is None else relative(reference, newest),
        tuple(values),
        _noise(series, report),
        series.unit,
        series.higher_is_better,
        dict(series.labels),
    )


def _noise(series: Series, report: Report) -> float | None:
    changed = [
        finding.at
        for finding in report.findings
        if finding.series == series.id and finding.state is not SeriesState.REFUTED
    ]
    level = [point.value for point in series.points if not changed or point.at >= max(changed)]
    within = band(level)
    return relative(within.centre, within.high) if within and within.centre else None
