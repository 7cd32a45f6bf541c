"""fournos top: a live view of clusters, GPUs, running and waiting jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.console import Group
from rich.live import Live

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.cli.command import Cli, CliSession
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


_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
}
"""What terminals send for keys without a character."""
_CONTROLS: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
    "\x03": "interrupt",
    "\x04": "interrupt",
}


def parse(text: str) -> Iterator[str]:
    """Yields the keys of what one read returned; a sequence that is not known is left out.

    A terminal sends the bytes of a key together, so an escape at the end of the text is the key Esc.
    """
    rest = text
    while rest:
        escape = next((sequence for sequence in _SEQUENCES if rest.startswith(sequence)), "")
        if escape:
            yield _SEQUENCES[escape]
            rest = rest[len(escape) :]
        elif rest[0] == "\x1b" and rest[1:2] in ("[", "O"):
            end = next((index for index, one in enumerate(rest[2:], 2) if "@" <= one <= "~"), len(rest) - 1)
            rest = rest[end + 1 :]
        else:
            key = _CONTROLS.get(rest[0], rest[0])
            if key.isprintable():
                yield key
            rest = rest[1:]


@contextmanager
def reading(on_key: Callable[[str], None]) -> Iterator[None]:
    """Calls `on_key` for each key that is pressed, without echo, and gives the terminal back as it was."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        data = os.read(descriptor, 1024)
        for key in parse(data.decode(errors="ignore")) if data else ("interrupt",):
            on_key(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
