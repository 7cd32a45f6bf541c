"""fournos acknowledge …: changes of KPIs that are as they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.find import KpiOption
from fournos.cli.output import table
from fournos.cli.stored import RunArgument, history_of, selected

if TYPE_CHECKING:
    from fournos.history.api.verdicts import Acknowledged

app = command_group(
    "Acknowledge changes of KPIs that are as they should be: they are not regressions any more."
)


@verb(app, "add")
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
    async with cli.session() as session:
        history = history_of(session)
        (name,) = await selected(cli, history, [job])
        _show(cli, await history.acknowledge(name, reason, kpi=kpi))


@verb(app, "list", "ls")
async def list_acknowledged(cli: Cli, job: RunArgument, kpi: KpiOption = "") -> None:
    """List what is acknowledged of the runs that can be compared with a job."""
    async with cli.session() as session:
        history = history_of(session)
        (name,) = await selected(cli, history, [job])
        _show(cli, await history.acknowledgements(name, kpi=kpi))


@verb(app, "withdraw")
async def withdraw(cli: Cli, job: RunArgument, kpi: KpiOption = "") -> None:
    """Withdraw what was acknowledged of a run, as `list` names it: its changes count again."""
    async with cli.session() as session:
        history = history_of(session)
        (name,) = await selected(cli, history, [job])
        await history.withdraw(name, kpi=kpi)
    cli.output.say(f"No change of {job} is acknowledged any more")


def _show(cli: Cli, acknowledged: Sequence[Acknowledged]) -> None:
    if cli.output.structured:
        from fournos.history.api.verdicts import Acknowledged
        from fournos.history.records import adapter

        cli.output.data(adapter(tuple[Acknowledged, ...]).dump_python(tuple(acknowledged), mode="json"))
    elif not acknowledged:
        cli.output.hint("Nothing is acknowledged.")
    else:
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
        cli.output.lines(table(header, rows, width=cli.output.width))
