"""fournos top: a live view of clusters, GPUs, running and waiting jobs."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.console import Group
from rich.live import Live

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.cli.command import Cli, CliSession
from fournos.cli.keys import reading
from fournos.cli.top_screen import Screen, body, furthest, lines, press
from fournos.insight.caches import ObjectCaches, scopes
from fournos.insight.environment import clusters_namespace
from fournos.insight.overview import KINDS, Overview, read

_REDRAW: Final = 1.0
"""Seconds between two drawings without a change, for the durations."""
_REST: Final = 0.1
"""Seconds between two drawings at least: a burst of changes is drawn once."""


async def top(
    cli: Cli,
    once: Annotated[
        bool, typer.Option("--once", help="Print it once and exit, as when the output is a pipe.")
    ] = False,
) -> None:
    """Watch clusters and jobs live: GPUs used and free, who runs where, who waits and why.

    It follows changes by watches. Keys: q quits, s sorts by another column, r reverses, / filters by
    job, owner or cluster, Esc drops the filter, the arrows and PgUp, PgDn scroll. In a pipe it prints once.

    \b
    fournos top
    fournos top --once | grep a100
    fournos top -o json | jq '.waiting[] | {name, place, reason}'
    """
    clusters = clusters_namespace()
    async with cli.session() as session:
        if once or cli.output.structured or not cli.output.interactive:
            overview = await read(session.api, session.namespace, clusters, cli.world.now())
            if cli.output.structured:
                cli.output.data(overview.as_data())
            else:
                cli.output.lines(body(overview, cli.world.now(), width=cli.output.width))
            return
        kinds = await scopes(session.api, KINDS, session.namespace)
        async with ObjectCaches(session.api, {**kinds, FOURNOS_CLUSTER: clusters}) as caches:
            await _live(cli, session, caches, clusters)


async def _live(cli: Cli, session: CliSession, caches: ObjectCaches, clusters: str) -> None:
    console = cli.output.out
    screen: Screen | None = Screen()

    def pressed(key: str) -> None:
        nonlocal screen
        if screen is not None:
            screen = press(screen, key, page=max(1, console.height - 2))
        caches.wake()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, caches.wake)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live, reading(pressed):
            while screen is not None:
                now = cli.world.now()
                overview = await read(caches, session.namespace, clusters, now)
                screen = _within(overview, screen, cli)
                size = {"width": console.width, "height": console.height}
                watch_error = str(caches.watch_error or "")
                live.update(
                    Group(*lines(overview, screen, now, **size, watch_error=watch_error)), refresh=True
                )
                await caches.change(within=_REDRAW)
                await asyncio.sleep(_REST if screen is not None else 0)
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


def _within(overview: Overview, screen: Screen, cli: Cli) -> Screen:
    """Keeps the offset within the body, so that the next key up scrolls at once."""
    console = cli.output.out
    last = furthest(overview, screen, cli.world.now(), width=console.width, height=console.height)
    return replace(screen, offset=min(screen.offset, last))
