"""fournos benchmarks: how all that is measured stands."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.exits import Exit
from fournos.cli.find import complete_owner
from fournos.cli.listing import EverywhereOption
from fournos.cli.options import AllClustersOption, Format
from fournos.cli.output import sparkline, table
from fournos.cli.stored import history_of
from fournos.insight.values import count

if TYPE_CHECKING:
    from fournos.history.regressions.benchmark import Benchmark, BenchmarkKpi

_SHOWN = 12
"""Runs of a sparkline, the newest ones."""
_KPIS = 3
"""KPIs of a benchmark that the table shows, those that ask for somebody first."""

OwnersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--owner",
        metavar="NAME",
        help="Only those whose newest run is of NAME.",
        autocompletion=complete_owner,
    ),
]


class Shown(StrEnum):
    """Which benchmarks are shown."""

    FAILING = "failing"
    SILENT = "silent"


class BenchmarksFailure(StrEnum):
    """What makes `benchmarks` fail."""

    REGRESSION = "regression"


async def benchmarks(
    cli: Cli,
    owners: OwnersOption = None,
    mine: Annotated[bool, typer.Option("--mine", "-m", help="Only those whose newest run is yours.")] = False,
    show: Annotated[
        Shown | None,
        typer.Option(
            "--show",
            metavar="failing|silent",
            help="Only those with an open regression, or only those that are not run any more.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            "--days", metavar="N", min=1, max=3650, help="Only those with results in the last N days."
        ),
    ] = 84,
    fail_on: Annotated[
        BenchmarksFailure | None,
        typer.Option("--fail-on", metavar="regression", help="Exit with code 1 while a regression is open."),
    ] = None,
    everywhere: EverywhereOption = False,
    all_clusters: AllClustersOption = False,
) -> int:
    """Show how the benchmarks stand: one row for each KPI of comparable runs, open regressions first.

    \b
    fournos benchmarks
    fournos benchmarks --mine --show failing
    fournos benchmarks --fail-on regression
    fournos benchmarks -A -o wide                 with the owners of the newest runs
    """
    async with cli.session() as session:
        history = history_of(session, all_clusters=all_clusters)
        everybody = [*(owners or ()), *([cli.me] if mine else ())]
        listed = await history.benchmarks(*everybody, days=days, everywhere=everywhere)
    from fournos.history.regressions.benchmark import FAILING, Benchmark, BenchmarkState

    states = {Shown.FAILING: FAILING, Shown.SILENT: {BenchmarkState.SILENT}}
    shown = [row for row in listed if show is None or row.state in states[show]]
    if cli.output.structured:
        from fournos.history.records import adapter

        cli.output.data(adapter(list[Benchmark]).dump_python(shown, mode="json"))
    elif not shown:
        cli.output.hint(
            f"{count(len(listed), 'benchmark')}, none of them {show}."
            if show and listed
            else "There are no benchmarks yet: results of jobs make them."
        )
    else:
        cli.output.lines(
            _table(shown, everywhere=everywhere, wide=cli.output.form is Format.WIDE, width=cli.output.width)
        )
    return Exit.FAILED if fail_on and any(row.state in FAILING for row in listed) else Exit.OK


def _table(shown: Sequence[Benchmark], *, everywhere: bool, wide: bool, width: int | None) -> list[Text]:
    header = ["NEWEST RUN", "KPI", "NEWEST", "CHANGE", "NOISE", "TREND", "SINCE", "STATE"]
    rows: list[list[str | Text]] = []
    for benchmark in shown:
        run = benchmark.run
        about = [run.identity.namespace] if everywhere else []
        about += [run.owner or "-"] if wide else []
        own = [_row(benchmark, kpi) for kpi in benchmark.kpis[:_KPIS]]
        if more := len(benchmark.kpis) - len(own):
            own.append([run.name, f"{more} more", *["-"] * 6])
        rows += [[*about, *row] for row in own]
    places = (["NAMESPACE"] if everywhere else []) + (["OWNER"] if wide else [])
    return table([*places, *header], rows, width=width, spare=("NOISE",))


def _row(benchmark: Benchmark, kpi: BenchmarkKpi) -> list[str | Text]:
    from fournos.history.regressions.benchmark import FAILING, BenchmarkState
    from fournos.history.regressions.series import with_labels

    return [
        benchmark.run.name,
        with_labels(kpi.kpi_id, kpi.labels),
        f"{kpi.newest:g} {kpi.unit}".strip(),
        "-" if kpi.change is None else f"{kpi.change:+.1%}",
        "-" if kpi.noise is None else f"±{kpi.noise:.1%}",
        sparkline(kpi.values[-_SHOWN:]),
        benchmark.since_name or benchmark.since if kpi.state in FAILING else "-",
        benchmark.silence if kpi.state is BenchmarkState.SILENT else kpi.text,
    ]
