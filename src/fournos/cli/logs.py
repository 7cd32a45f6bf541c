"""fournos logs: what a job's tasks, or its resolver, print."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Annotated, Any, Final, cast

import typer
from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.find import NameArgument, find_job
from fournos.cli.stored import history_of
from fournos.client.history import AsyncHistory
from fournos.client.history_logs import LogSelection, lines_or
from fournos.client.logs import LogLine, followed_lines, printed_lines
from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Obj, uid_of
from fournos.insight.dispatch import is_dispatched
from fournos.insight.environment import kueue_namespace
from fournos.insight.errors import NoLogError
from fournos.insight.log_sources import WantedLogs
from fournos.insight.values import is_terminal
from fournos.insight.workers import ManagerCluster, on_worker

_COLOUR_CODE: Final = re.compile(r"\x1b\[[0-9;:]*m")
_COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "red")

ResolverOption = Annotated[
    bool,
    typer.Option(
        "--resolver", help="Only the resolve Job's log; it comes first anyway while the job is Resolving."
    ),
]
TailOption = Annotated[
    int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N lines of each container.")
]
AttemptOption = Annotated[
    int | None,
    typer.Option("--attempt", metavar="N", min=1, help="Of this attempt; default: the current one."),
]


async def logs(
    cli: Cli,
    name: NameArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as lines come, until the job ends.")
    ] = False,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="TASK", help="Only this task of the Pipeline.")
    ] = None,
    resolver: ResolverOption = False,
    tail: TailOption = None,
    attempt: AttemptOption = None,
    from_line: Annotated[
        int | None,
        typer.Option("--from-line", metavar="N", min=1, help="From line N on, as the history counts them."),
    ] = None,
    first_error: Annotated[
        bool,
        typer.Option("--first-error", help="The first line that shows why the job failed, and those before."),
    ] = False,
) -> None:
    """Print the logs of a job's tasks, in the order in which they started, each line with its task's name.

    \b
    fournos logs @last
    fournos logs -f nightly-x7k2m --task run-benchmark
    fournos logs nightly-x7k2m --resolver
    fournos logs nightly-x7k2m --first-error
    fournos logs -f nightly-x7k2m --from-line 4711

    When the job or its pods are gone, the lines come from the history, where there is one. --from-line and
    --first-error always read there.

    Those of a job that a worker cluster runs are read there, with a kubeconfig for logs, or else with that of
    its MultiKueueCluster.
    """
    _refuse_contradictions(
        follow=follow, task=task, resolver=resolver, tail=tail, from_line=from_line, first_error=first_error
    )
    selection = LogSelection(task=task or "", attempt=attempt, resolver=resolver)
    async with cli.session() as session:
        printer, history = Printer(cli), history_of(session)
        if first_error:
            await _first_error(printer, history, name, selection)
            return
        if from_line:
            await show(history.logs(name, first=from_line, follow=follow, **selection), printer)
            return
        stored = partial(history.logs, tail=tail, **selection)
        try:
            job = await find_job(cli, session, name)
        except Fail as missing:
            await show(lines_or(missing, stored(name)), printer)
            return
        wanted = WantedLogs(resolver=resolver, tasks=not resolver, task=task, attempt=attempt)
        try:
            await _of_pods(cli, session.api, job, wanted, printer, follow=follow, tail=tail)
        except NoLogError as error:
            await show(lines_or(error, stored(uid_of(job))), printer)


def _refuse_contradictions(
    *,
    follow: bool,
    task: str | None,
    resolver: bool,
    tail: int | None,
    from_line: int | None,
    first_error: bool,
) -> None:
    if resolver and task:
        raise Fail("--resolver and --task exclude one another", fix="leave one out")
    if first_error and (follow or tail is not None):
        raise Fail("--first-error reads what is stored", fix="leave out --follow and --tail")
    if from_line and tail is not None:
        raise Fail("--from-line and --tail exclude one another", fix="leave one out")


async def _of_pods(
    cli: Cli, api: Api, job: Obj, asked: WantedLogs, printer: Printer, *, follow: bool, tail: int | None
) -> None:
    """Prints what the job's pods print, on the worker cluster that runs it.  Raises NoLogError."""
    async with AsyncExitStack() as stack:
        if is_dispatched(job):
            manager = ManagerCluster(api, cli.world.dial, cli.world.now, kueue_namespace())
            api, job = await stack.enter_async_context(on_worker(manager, job))
        wanted = asked.in_phase_of(job, follow=follow)
        reader = followed_lines if follow and not is_terminal(job) else printed_lines
        await show(reader(api, job, wanted, tail), printer)


_BEFORE: Final = 10
_AFTER: Final = 2
"""Lines that are shown around the first error."""


async def _first_error(printer: Printer, history: AsyncHistory, name: str, selection: LogSelection) -> None:
    """Prints the lines around the first one that shows why the job failed."""
    failure = (await history.log_page(name, limit=0, **selection)).failure
    if failure is None:
        raise Fail(
            f"no container of {name} has failed, as far as its log is stored",
            fix=f"see why: fournos explain {name}",
            code=Exit.NOT_FOUND,
        )
    first = max(1, failure.line - _BEFORE)
    page = await history.log_page(name, first=first, limit=failure.line - first + 1 + _AFTER, **selection)
    for line in page.lines:
        printer.line(page.parts[line.part].source(page.parts), line.text)
    printer.show(
        LogLine(
            "",
            f"Line {failure.line}: {failure.task} ended with exit code {failure.exit_code}. "
            f"From there on: fournos logs {name} --from-line {failure.line}",
            notice=True,
        )
    )


async def show(lines: AsyncIterator[LogLine], printer: Printer) -> bool:
    """Prints the lines.  Returns True if a line of a log, not only notices, was printed."""
    printed = False
    async with aclosing(cast(Any, lines)) as found:
        async for line in found:
            printer.show(line)
            printed = printed or not line.notice
    return printed


class Printer:
    """Prints lines with the name of their task as a prefix.  Each task has its own colour."""

    def __init__(self, cli: Cli) -> None:
        self._output = cli.output
        self._colours: dict[str, str] = {}

    def line(self, prefix: str, line: str) -> None:
        colour = self._colours.setdefault(prefix, _COLOURS[len(self._colours) % len(_COLOURS)])
        # On a terminal the colours of the printed program are kept.  Other control sequences are escaped:
        # a log is untrusted text.
        terminal = self._output.out.is_terminal
        body = Text.from_ansi(line) if terminal else Text(_COLOUR_CODE.sub("", line))
        self._output.say(Text.assemble((f"[{prefix}] ", colour), body))

    def show(self, line: LogLine) -> None:
        if not line.notice:
            self.line(line.source, line.text)
        else:
            self._output.hint(f"[{line.source}] {line.text}" if line.source else line.text)
