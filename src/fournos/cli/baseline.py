"""fournos baseline …: the runs that later ones are compared with."""

from __future__ import annotations

from typing import Annotated

import typer

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.listing import EverywhereOption
from fournos.cli.options import AllClustersOption
from fournos.cli.output import table
from fournos.cli.stored import RunArgument, api_data, history_of

app = command_group("Baselines: the runs that later ones are compared with.")


@verb(app, "pin")
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
        history = history_of(session)
        (run,) = await history.select(job, owner=cli.me)
        await history.pin(run, reason=reason)
    cli.output.say(f"{run.name} is the baseline")


@verb(app, "unpin")
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
        history = history_of(session)
        (run,) = await history.select(job, owner=cli.me)
        await history.unpin(run)
        if expire:
            await history.release(run)
    cli.output.say(f"{run.name} is not a baseline any more")
    if not expire:
        cli.output.hint("It is still kept; --expire would let it expire.")


@verb(app, "list", "ls")
async def list_baselines(
    cli: Cli, everywhere: EverywhereOption = False, all_clusters: AllClustersOption = False
) -> None:
    """List the baselines, the newest first."""
    async with cli.session() as session:
        baselines = await history_of(session, all_clusters=all_clusters).baselines(everywhere=everywhere)
    if cli.output.structured:
        data = [
            {
                "run": api_data(baseline.run),
                "at": baseline.at.isoformat(),
                "by": baseline.by,
                "reason": baseline.reason,
            }
            for baseline in baselines
        ]
        cli.output.data(data)
    elif not baselines:
        cli.output.hint("There are no baselines.")
    else:
        header = ["NAME", "PIPELINE", "PROJECT", "CLUSTER", "PINNED", "BY", "REASON"]
        rows = [
            [
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
        if everywhere:
            header.insert(0, "NAMESPACE")
            for row, baseline in zip(rows, baselines, strict=True):
                row.insert(0, baseline.run.identity.namespace)
        cli.output.lines(table(header, rows, width=cli.output.width))
