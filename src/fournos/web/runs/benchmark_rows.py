"""The benchmarks as the page shows them: one row for each KPI, with its links.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from fournos.history.regressions.benchmark import FAILING, Benchmark, BenchmarkKpi, BenchmarkState
from fournos.history.regressions.series import labels_text
from fournos.insight.values import number
from fournos.web.charts.sparkline import sparkline
from fournos.web.runs.subject import address, compare_address, trends_address

KPIS: Final = 5
"""KPIs of a benchmark that are shown, those that ask for somebody first."""
SHOWS: Final = {
    "": ("All", frozenset(BenchmarkState)),
    "failing": ("Failing", FAILING),
    "silent": ("Silent", frozenset({BenchmarkState.SILENT})),
}
"""Value in the address → title, and the states of the benchmarks that are shown."""
TITLES: Final = {BenchmarkState.NOT_JUDGED: "Not judged"}


@dataclass(frozen=True, slots=True)
class KpiRow:
    """One KPI of a benchmark."""

    name: str
    labels: str
    trend: str
    """The address of its trend."""
    newest: str
    reference: str
    change: str
    noise: str
    state: str
    text: str
    line: Markup


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A benchmark."""

    benchmark: Benchmark
    kpis: Sequence[KpiRow]
    more: int
    """KPIs that are not shown."""
    link: str
    """The address of its newest run."""
    trend: str
    since: str
    """The address of the run with which the newest open regression began; "" without one."""
    differs: str
    """The address of the comparison of that run with the one before it; "" without one."""


@dataclass(frozen=True, slots=True)
class ShowTab:
    """A choice of benchmarks."""

    title: str
    number: int
    address: str
    chosen: bool


def benchmark_rows(benchmarks: Iterable[Benchmark], show: str) -> list[BenchmarkRow]:
    """The rows of the benchmarks that a tab shows, in their order."""
    states = SHOWS[show][1]
    return [_row(benchmark) for benchmark in benchmarks if benchmark.state in states]


def tabs(benchmarks: Sequence[Benchmark], show: str, owner: str) -> list[ShowTab]:
    """All choices, with the number of benchmarks of each."""
    return [
        ShowTab(
            title,
            sum(benchmark.state in states for benchmark in benchmarks),
            _address({"show": value, "owner": owner}),
            value == show,
        )
        for value, (title, states) in SHOWS.items()
    ]


def _address(query: dict[str, str]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"/benchmarks?{urlencode(given)}" if given else "/benchmarks"


def _row(benchmark: Benchmark) -> BenchmarkRow:
    identity, name = benchmark.run.identity, benchmark.run.name
    began = benchmark.since_name and address(identity.namespace, benchmark.since_name, uid=benchmark.since)
    runs = [f"{identity.namespace}/{uid}" for uid in (benchmark.before, benchmark.since)]
    return BenchmarkRow(
        benchmark,
        [_kpi(kpi, benchmark) for kpi in benchmark.kpis[:KPIS]],
        max(0, len(benchmark.kpis) - KPIS),
        address(identity.namespace, name, uid=identity.uid),
        trends_address(identity.namespace, identity.uid),
        began,
        compare_address(*runs) if benchmark.before else "",
    )


def _kpi(kpi: BenchmarkKpi, benchmark: Benchmark) -> KpiRow:
    identity = benchmark.run.identity
    return KpiRow(
        kpi.kpi_id,
        labels_text(kpi.labels),
        trends_address(identity.namespace, identity.uid, kpi.kpi_id),
        f"{number(kpi.newest)} {kpi.unit}".strip(),
        "" if kpi.reference is None else f"{number(kpi.reference)} {kpi.unit}".strip(),
        "" if kpi.change is None else f"{kpi.change:+.1%}",
        "" if kpi.noise is None else f"±{kpi.noise:.1%}",
        kpi.state.value,
        benchmark.silence if kpi.state is BenchmarkState.SILENT else kpi.detail,
        sparkline(kpi.kpi_id, kpi.values, kpi.unit),
    )
