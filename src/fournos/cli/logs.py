"""fournos logs: what a job's tasks, or its resolver, print."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Final

import typer
from rich.text import Text

from fournos.cli.errors import Fail
from fournos.cli.find import NameArgument, find_job
from fournos.cli.verbs import Cli, Session, verb
from fournos.cli.workers import on_worker
from fournos.client.follow import Follower
from fournos.insight.children import Children, children
from fournos.insight.log_sources import LogSource, Wanted, nothing, sources
from fournos.insight.values import is_terminal, name_of, phase_of, spec_of
from fournos.jobs.kinds import PIPELINE_RUN, TASK_RUN
from fournos.kube.api import Api
from fournos.kube.errors import ConnectionLostError, InvalidError, NotFoundError
from fournos.kube.kinds import JOB, POD
from fournos.kube.resource import Obj
from fournos.multikueue.names import MULTIKUEUE

_COLOUR_CODE: Final = re.compile(r"\x1b\[[0-9;:]*m")
_COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "red")


def install(app: typer.Typer) -> None:
    verb(app, "logs", "log")(logs)


async def logs(
    cli: Cli,
    name: NameArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as lines come, until the job ends.")
    ] = False,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="TASK", help="Only this task of the Pipeline.")
    ] = None,
    resolver: Annotated[
        bool,
        typer.Option(
            "--resolver", help="Only the resolve Job's log; it comes first anyway while the job is Resolving."
        ),
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", metavar="N", min=0, help="Only the last N lines of each container."),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Of this attempt; default: the current one."),
    ] = None,
) -> None:
    """Print the logs of a job's tasks, in the order in which they started, each line with its task's name.

    \b
    fournos logs @last
    fournos logs -f nightly-x7k2m --task run-benchmark
    fournos logs nightly-x7k2m --resolver

    Those of a job that a worker cluster runs are read there, with a kubeconfig for logs, or else with that of
    its MultiKueueCluster.
    """
    if resolver and task:
        raise Fail("--resolver and --task exclude one another", fix="leave one out")
    async with cli.session() as session, AsyncExitStack() as stack:
        job = await find_job(cli, session, name)
        if spec_of(job).get("managedBy") == MULTIKUEUE:
            session, job = await stack.enter_async_context(on_worker(cli, session, job))
        resolving = not task and not attempt and phase_of(job) in ("New", "Resolving")
        wanted = Wanted(
            resolver=resolver or resolving,
            tasks=not resolver and (follow or not resolving),
            task=task,
            attempt=attempt,
        )
        if follow and not is_terminal(job):
            await _follow(cli, session, job, wanted, tail)
        else:
            await _print(cli, session, job, wanted, tail)


async def _print(cli: Cli, session: Session, job: Obj, wanted: Wanted, tail: int | None) -> None:
    found = await children(session.api, job)
    printer = Printer(cli)
    asked = sources(job, found, wanted)
    printed = False
    for source in asked:
        if source.started:
            printed = await copy(session.api, source, printer, tail, follow=False) or printed
    if not asked:
        raise nothing(job, found, wanted)
    if not printed:
        cli.output.hint("No lines yet: the containers have not begun. Wait for them with -f.")


async def _follow(cli: Cli, session: Session, job: Obj, wanted: Wanted, tail: int | None) -> None:
    """Every container is read as soon as it has begun, until the job, or its resolving, is over."""
    printer = Printer(cli)
    readers: dict[LogSource, asyncio.Task[bool]] = {}
    told = False

    def read(job: Obj, found: Children) -> list[LogSource]:
        asked = sources(job, found, wanted)
        for source in asked:
            if source.started and source not in readers:
                reading = copy(session.api, source, printer, tail, follow=True)
                readers[source] = asyncio.create_task(reading)
        return asked

    try:
        async with Follower(session.api, job, (JOB, PIPELINE_RUN, TASK_RUN, POD)) as follower:
            while True:
                job = follower.job
                asked = read(job, follower.children)
                if is_terminal(job) or (not wanted.tasks and phase_of(job) not in ("New", "Resolving")):
                    break
                if not asked and not told:
                    told = True
                    cli.output.hint(f"{name_of(job)} is {phase_of(job)}: waiting for the first line.")
                await follower.change()
        # The job's end may overtake the news of a container that was quick.
        found = await children(session.api, job)
        read(job, found)
        await asyncio.gather(*readers.values())
    finally:
        for reader in readers.values():
            reader.cancel()
    if not readers:
        raise nothing(job, found, wanted)
    cli.output.hint(f"{name_of(job)} is {phase_of(job)}.")


async def copy(api: Api, source: LogSource, printer: Printer, tail: int | None, *, follow: bool) -> bool:
    """Print one container's log; False if there was nothing to print."""
    printed = False
    try:
        lines: AsyncIterator[str] = await api.logs(
            source.pod, container=source.container, tail=tail, follow=follow
        )
        async for line in lines:
            printed = True
            printer.line(source.prefix, line)
    except (NotFoundError, InvalidError):
        printer.note(source.prefix, "its pod is gone, and the log with it")
    except ConnectionLostError:
        printer.note(source.prefix, "the connection was lost; lines may be missing")
    return printed


class Printer:
    """Lines with the name of their task before them, a colour each."""

    def __init__(self, cli: Cli) -> None:
        self._output = cli.output
        self._colours: dict[str, str] = {}

    def line(self, prefix: str, line: str) -> None:
        colour = self._colours.setdefault(prefix, _COLOURS[len(self._colours) % len(_COLOURS)])
        # The program's own colours are kept on a terminal; other control sequences are escaped.
        terminal = self._output.out.is_terminal
        body = Text.from_ansi(line) if terminal else Text(_COLOUR_CODE.sub("", line))
        self._output.say(Text.assemble((f"[{prefix}] ", colour), body))

    def note(self, prefix: str, text: str) -> None:
        self._output.hint(f"[{prefix}] {text}")
