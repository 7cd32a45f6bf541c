"""fournos compare and fournos trend: what runs measured, beside each other and over time."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fournos.cli.command import Cli
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import KpiOption, bare_names
from fournos.cli.options import Format
from fournos.cli.output import sparkline, table
from fournos.cli.stored import RunArgument, api_data, history_of_run, selected

if TYPE_CHECKING:
    from fournos.history.api.comparisons import Trends
    from fournos.history.compare.comparison import Comparison


class CompareFailure(StrEnum):
    """What makes `compare` fail."""

    REGRESSION = "regression"


class Open(StrEnum):
    """What makes `trend` fail."""

    REGRESSION = "regression"
    NEW_REGRESSION = "new-regression"


async def compare(
    cli: Cli,
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB JOB…",
            show_default=False,
            callback=bare_names,
            help="Names, UIDs, labels (team=x,model=y: the newest that succeeded), @last or @baseline; "
            "the first is the reference. They may be gone.",
        ),
    ],
    across: Annotated[
        bool, typer.Option("--across", help="Judge also runs that measured different things.")
    ] = False,
    fail_on: Annotated[
        CompareFailure | None,
        typer.Option("--fail-on", metavar="regression", help="Exit with code 1 if a KPI is worse."),
    ] = None,
) -> int:
    """Compare runs: first what differs, then their KPIs within the noise of comparable runs.

    \b
    fournos compare llama-monday llama-tuesday
    fournos compare @baseline candidate --fail-on regression
    fournos compare branch=main @last
    fournos compare base candidate -o md > report.md
    """
    if len(jobs) < 2:
        raise Fail("A comparison needs two jobs or more", fix="fournos compare REFERENCE OTHER")
    from fournos.history.compare.formats import FORMATS, as_data, as_text

    async with cli.session() as session:
        history = session.history
        comparison = await history.compare(*await selected(cli, history, jobs), across=across)
    if cli.output.form is Format.YAML:
        cli.output.data(as_data(comparison))
    else:
        text = FORMATS.get(cli.output.form.value, as_text)(comparison)
        cli.output.lines(text.removesuffix("\n").split("\n"))
    if not fail_on:
        return Exit.OK
    if comparison.regressed:
        return Exit.FAILED
    if unjudged := _unjudged(comparison):
        of = comparison.names[0]
        raise Fail(
            f"not judged: {', '.join(unjudged)} has no results that can be compared with those of {of}",
            fix=f"see what it measured, or what was refused: fournos results list {unjudged[0]}",
        )
    return Exit.OK


def _unjudged(comparison: Comparison) -> list[str]:
    """Returns the runs of which no value was compared: a gate that is green for them would say nothing."""
    from fournos.history.compare.comparison import KpiVerdict

    nothing = (KpiVerdict.NOT_COMPARABLE, KpiVerdict.MISSING)
    return [
        name
        for place, name in enumerate(comparison.names)
        if place and all(row.cells[place].verdict in nothing for row in comparison.rows)
    ]


_SHOWN = 30
"""Runs of a sparkline, the newest ones."""


async def trend(
    cli: Cli,
    job: RunArgument,
    kpi: KpiOption = "",
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            metavar="N",
            min=1,
            max=1000,
            help="The newest runs of each series; without it those that messages and metrics judge, too.",
        ),
    ] = None,
    fail_on: Annotated[
        Open | None,
        typer.Option(
            "--fail-on",
            metavar="regression|new-regression",
            help="Exit with code 1 while a regression is open: suspected or confirmed, not acknowledged, not "
            "recovered; or only if one begins with the newest run.",
        ),
    ] = None,
) -> int:
    """Show the KPIs of a job over the runs that can be compared with it, and what changed in them.

    \b
    fournos trend llama-7b
    fournos trend @last
    fournos trend llama-7b --kpi throughput --fail-on regression
    """
    async with history_of_run(cli, job) as (history, name):
        trends = await history.trends(name, kpi=kpi, runs=runs)
    if cli.output.structured:
        cli.output.data(api_data(trends, by_alias=False))
    elif not trends.series:
        cli.output.hint(f"{job} has no results that can be compared.")
    else:
        header = ("KPI", "TEST", "RUNS", "NEWEST", "STATE", "TREND")
        cli.output.lines(table(header, _rows(trends), width=cli.output.width))
        for line in trends.summary:
            cli.output.say(line)
    fails = {Open.REGRESSION: trends.regressed, Open.NEW_REGRESSION: trends.newly_regressed}
    if not fail_on:
        return Exit.OK
    if fails[fail_on]:
        return Exit.FAILED
    run = trends.run.identity.text
    if not any(point.run == run for series in trends.series for point in series.points):
        raise Fail(
            f"not judged: {trends.run.name} has no results among these runs",
            fix=f"see what it measured, or what was refused: fournos results list {trends.run.name}",
        )
    return Exit.OK


def _rows(trends: Trends) -> list[tuple[str, ...]]:
    """Returns a row for each series."""
    return [
        (
            series.kpi_id,
            " ".join(f"{name}={value}" for name, value in series.labels.items()) or "-",
            str(len(series.points)),
            f"{series.points[-1].value:g} {series.unit}".strip() if series.points else "-",
            trends.state_of(series),
            sparkline([point.value for point in series.points[-_SHOWN:]]),
        )
        for series in trends.series
    ]
