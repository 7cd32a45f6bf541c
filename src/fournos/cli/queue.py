"""fournos queue: the pending objects of a queue, their order, and why each waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.find import completion
from fournos.cli.output import table
from fournos.insight.queues import QueueEntry, entries, gather_queue
from fournos.insight.values import LOCAL_QUEUE, since


async def queue(
    cli: Cli,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUEUE]",
            help="Name of a LocalQueue; default: FOURNOS_KUEUE_LOCAL_QUEUE_NAME, or fournos-queue.",
            autocompletion=completion(LOCAL_QUEUE),
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show a whole queue: who waits, of all namespaces that share it, in which order, and why each.

    \b
    fournos queue
    fournos queue gpu-queue -o json
    """
    async with cli.session() as session:
        facts = await gather_queue(session.api, session.namespace, name or cli.queue)
    waiting = entries(facts, cli.world.now())
    if cli.output.structured:
        cli.output.data([one.as_data() for one in waiting])
    elif not waiting:
        cli.output.hint(f"Nothing waits in {facts.base.queue_name}.")
    else:
        cli.output.lines(view(waiting, cli.world.now(), width=cli.output.width))


def view(waiting: Sequence[QueueEntry], now: datetime, *, width: int | None) -> list[Text]:
    header = ["PLACE", "NAMESPACE", "NAME", "OWNER", "PRIORITY", "FOR", "REASON"]
    rows = [
        (
            str(entry.place or "-"),
            entry.namespace,
            entry.name if entry.kind == "FournosJob" else f"{entry.kind.lower()}/{entry.name}",
            entry.owner or "-",
            str(entry.priority),
            since(entry.since, now),
            entry.reason,
        )
        for entry in waiting
    ]
    return table(header, rows, width=width, spare=("PRIORITY", "NAMESPACE", "OWNER"))
