"""fournos benchmarks, baseline … and acknowledge …: how all that is measured stands, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import KpiOption, complete_owner
from fournos.cli.list import EverywhereOption
from fournos.cli.options import Format
from fournos.cli.output import sparkline, table
from fournos.cli.stored import RunArgument, api_data, history_of_run
from fournos.insight.values import count

if TYPE_CHECKING:
    from fournos.history.api.verdicts import Acknowledged
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
) -> int:
    """Show how the benchmarks stand: one row for each KPI of comparable runs, open regressions first.

    \b
    fournos benchmarks
    fournos benchmarks --mine --show failing
    fournos benchmarks --fail-on regression
    fournos benchmarks -A -o wide                 with the owners of the newest runs
    """
    if mine and not cli.me:
        raise Fail("whose are yours?", fix="set FOURNOS_OWNER, or name the owner with --owner NAME")
    everybody = [*(owners or ()), *([cli.me] if mine else ())]
    async with cli.session() as session:
        history = session.history
        listed = await history.benchmarks(*everybody, days=days, everywhere=everywhere)
    from fournos.history.regressions.benchmark import FAILING, BenchmarkState

    states = {Shown.FAILING: FAILING, Shown.SILENT: {BenchmarkState.SILENT}}
    shown = [row for row in listed if show is None or row.state in states[show]]
    whose = f" of {' or '.join(everybody)}" if everybody else ""
    nothing = f"there are no benchmarks{whose} with results in the last {days} days"
    if cli.output.structured:
        cli.output.data([api_data(row, by_alias=False) for row in shown])
    elif not shown:
        cli.output.hint(
            f"{count(len(listed), 'benchmark')}, none of them {show}." if listed else f"T{nothing[1:]}."
        )
    else:
        cli.output.lines(
            _table(shown, everywhere=everywhere, wide=cli.output.form is Format.WIDE, width=cli.output.width)
        )
    if fail_on and not listed:
        raise Fail(f"not judged: {nothing}", fix="see all of them: fournos benchmarks -A")
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


baseline_app = command_group("Baselines: the runs that later ones are compared with.")


@verb(baseline_app, "pin")
async def pin(
    cli: Cli,
    job: RunArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored.")] = "",
) -> None:
    """Make a run the baseline of all runs that can be compared with it, instead of another one.

    It does not expire. `fournos compare @baseline JOB` compares with it, and `fournos trend` finds slow
    changes by it.

    \b
    fournos baseline pin llama-7b --reason "release 1.4"
    """
    async with cli.session() as session:
        history = session.history
        (run,) = await history.select(job, owner=cli.me)
        await history.pin(run, reason=reason)
    cli.output.say(f"{run.name} is the baseline")


@verb(baseline_app, "unpin")
async def unpin(
    cli: Cli,
    job: RunArgument,
    expire: Annotated[
        bool, typer.Option("--expire", help="Also let the run expire; without it, it stays kept.")
    ] = False,
) -> None:
    """End that a run is a baseline.

    \b
    fournos baseline unpin llama-7b --expire
    """
    async with cli.session() as session:
        history = session.history
        (run,) = await history.select(job, owner=cli.me)
        await history.unpin(run)
        if expire:
            await history.release(run)
    cli.output.say(f"{run.name} is not a baseline any more")
    if not expire:
        cli.output.hint("It is still kept; --expire would let it expire.")


@verb(baseline_app, "list", "ls")
async def list_baselines(cli: Cli, everywhere: EverywhereOption = False) -> None:
    """List the baselines, the newest first."""
    async with cli.session() as session:
        baselines = await session.history.baselines(everywhere=everywhere)
    data = [
        {
            "run": api_data(baseline.run),
            "at": baseline.at.isoformat(),
            "by": baseline.by,
            "reason": baseline.reason,
        }
        for baseline in baselines
    ]
    rows = [
        [
            *([baseline.run.identity.namespace] if everywhere else []),
            baseline.run.name,
            baseline.run.pipeline or "-",
            baseline.run.project or "-",
            baseline.run.target or "-",
            f"{baseline.at:%F %H:%M}",
            baseline.by or "-",
            baseline.reason or "-",
        ]
        for baseline in baselines
    ]
    header = [*(["NAMESPACE"] if everywhere else []), "NAME", "PIPELINE", "PROJECT", "CLUSTER"]
    header += ["PINNED", "BY", "REASON"]
    cli.output.answer(data, header, rows, nothing="There are no baselines.")


acknowledge_app = command_group(
    "Acknowledge changes of KPIs that are as they should be: they are not regressions any more."
)


@verb(acknowledge_app, "add")
async def add(
    cli: Cli,
    job: RunArgument,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it is shown wherever the change is.")
    ],
    kpi: KpiOption = "",
) -> None:
    """Acknowledge the changes of KPIs that began with a run, as `fournos trend` names it.

    It holds when later runs move a change by a run or two, and when the run itself has expired.

    \b
    fournos acknowledge add llama-7b --reason "the new tokenizer"
    """
    async with history_of_run(cli, job) as (history, name):
        _show(cli, await history.acknowledge(name, reason, kpi=kpi))


@verb(acknowledge_app, "list", "ls")
async def list_acknowledged(cli: Cli, job: RunArgument, kpi: KpiOption = "") -> None:
    """List what is acknowledged of the runs that can be compared with a job."""
    async with history_of_run(cli, job) as (history, name):
        _show(cli, await history.acknowledgements(name, kpi=kpi))


@verb(acknowledge_app, "withdraw")
async def withdraw(cli: Cli, job: RunArgument, kpi: KpiOption = "") -> None:
    """Withdraw what was acknowledged of a run, as `list` names it: its changes count again."""
    async with history_of_run(cli, job) as (history, name):
        await history.withdraw(name, kpi=kpi)
    cli.output.say(f"No change of {job} is acknowledged any more")


def _show(cli: Cli, acknowledged: Sequence[Acknowledged]) -> None:
    rows = [
        (
            acknowledgement.run,
            acknowledgement.kpi_id,
            " ".join(f"{name}={value}" for name, value in acknowledgement.labels.items()) or "-",
            "higher" if acknowledgement.rises else "lower",
            acknowledgement.by or "-",
            acknowledgement.reason,
        )
        for acknowledgement in acknowledged
    ]
    header = ("SINCE", "KPI", "TEST", "NOW", "BY", "REASON")
    data = [api_data(acknowledgement, by_alias=False) for acknowledgement in acknowledged]
    cli.output.answer(data, header, rows, nothing="Nothing is acknowledged.")
