"""fournos usage: the GPU-hours of a period, and who used them."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.listing import EverywhereOption
from fournos.cli.options import AllClustersOption, Format
from fournos.cli.output import table
from fournos.cli.stored import history_of
from fournos.engine.api.values import parse_ttl
from fournos.insight.values import count

if TYPE_CHECKING:
    from fournos.history.usage import Share, Usage


class By(StrEnum):
    """What the usage is shared by."""

    OWNER = "owner"
    CLUSTER = "cluster"
    PROJECT = "project"
    GPU_TYPE = "gpu-type"
    LOCK = "lock"
    """Owners of locks, which are in none of the others."""


async def usage(
    cli: Cli,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="The length of the period until now: 12h, 7d, 30d.")
    ] = "7d",
    by: Annotated[
        By | None,
        typer.Option(
            "--by", metavar="owner|cluster|project|gpu-type|lock", help="Only this table; default: all."
        ),
    ] = None,
    everywhere: EverywhereOption = False,
    all_clusters: AllClustersOption = False,
) -> None:
    """Show the GPU-hours of a period by owner, cluster, project and GPU type.

    Jobs that are gone count. A run counts from its begin to its end, with all of its GPUs; one that lasts
    longer than the period with the part within it. -o csv is for a spreadsheet.

    \b
    fournos usage
    fournos usage -A --since 30d --by owner
    fournos usage --since 30d -o csv > usage.csv
    """
    try:
        length = parse_ttl(since)
    except ValueError as error:
        raise Fail(str(error), fix="write a length such as 12h or 30d") from None
    if length <= timedelta(0):
        raise Fail(f"{since} is not a length of time", fix="write a length such as 12h or 30d")
    async with cli.session() as session:
        history = history_of(session, all_clusters=all_clusters)
        used = await history.usage(since=cli.world.now() - length, everywhere=everywhere)
    if cli.output.structured:
        from fournos.history.records import adapter
        from fournos.history.usage import Usage

        cli.output.data(adapter(Usage).dump_python(used, mode="json"))
        return
    if cli.output.form is Format.CSV:
        from fournos.history.usage import as_csv

        cli.output.say(as_csv(used).rstrip())
        return
    cli.output.say(f"{used.hours:.1f} GPU-hours in {count(used.runs, 'run')} since {since} ago")
    for name, shares in _shares(used).items():
        if shares and by in (None, name):
            cli.output.say("")
            cli.output.lines(_table(name, shares, used.hours, cli.output.width))


def _shares(used: Usage) -> dict[By, tuple[Share, ...]]:
    return {
        By.OWNER: used.owners,
        By.CLUSTER: used.clusters,
        By.PROJECT: used.projects,
        By.GPU_TYPE: used.gpu_types,
        By.LOCK: used.locks,
    }


def _table(by: By, shares: tuple[Share, ...], hours: float, width: int | None) -> list[Text]:
    parts = [f"{share.hours / hours:.0%}" if hours else "-" for share in shares]
    rows = [
        [share.name or "none", f"{share.hours:.1f}", part, str(share.runs)]
        for share, part in zip(shares, parts, strict=True)
    ]
    return table([by.value.upper(), "GPU-HOURS", "SHARE", "RUNS"], rows, width=width)
