"""fournos logs: what a job's tasks, or its resolver, print."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Final, cast

import typer
from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import NameArgument, find_job
from fournos.client.history import AsyncHistory
from fournos.client.logs import LogLine, LogSelection, lines_or, live_lines
from fournos.insight.errors import MissingError, NoLogError
from fournos.insight.failure import WantedLogs
from fournos.insight.values import uid_of

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

    When the job or its pods are gone, the lines come from the history, where there is one: it stores the log
    of a container that has ended. --first-error always reads there.

    Those of a job that a worker cluster runs are read there, with a kubeconfig for logs, or else with that of
    its MultiKueueCluster.
    """
    if resolver and task:
        raise Fail("--resolver and --task exclude one another", fix="leave one out")
    if first_error and (follow or tail is not None):
        raise Fail("--first-error reads what is stored", fix="leave out --follow and --tail")
    selection = LogSelection(task=task or "", attempt=attempt, resolver=resolver)
    async with cli.session() as session:
        printer, history = Printer(cli), session.history
        if first_error:
            await _first_error(printer, history, name, selection)
            return
        stored = partial(history.logs, tail=tail, **selection)
        try:
            job = await find_job(cli, session, name)
        except MissingError as missing:
            await show(lines_or(missing, stored(name)), printer)
            return
        wanted = WantedLogs(resolver=resolver, tasks=not resolver, task=task, attempt=attempt)
        try:
            await show(live_lines(session, job, wanted, tail, follow=follow), printer)
        except NoLogError as error:
            await show(lines_or(error, stored(uid_of(job))), printer)


_BEFORE: Final = 10
"""Lines that are shown before the first error."""


async def _first_error(printer: Printer, history: AsyncHistory, name: str, selection: LogSelection) -> None:
    """Prints the first line that shows why the job failed, and those before it."""
    from fournos.history.logs.stored import first_failed

    logs = await history.stored_logs(name, **selection)
    failed = first_failed(logs)
    if failed is None or failed.failing_line is None:
        raise Fail(
            f"no container of {name} has failed, as far as its log is stored",
            fix=f"see why: fournos explain {name}",
            code=Exit.NOT_FOUND,
        )
    before: deque[str] = deque(maxlen=_BEFORE + 1)
    async with aclosing(cast(Any, history.log(name, failed))) as lines:
        number = 0
        async for line in lines:
            number += 1
            before.append(line)
            if number == failed.failing_line:
                break
    for line in before:
        printer.line(failed.source(logs), line)
    text = f"Line {failed.failing_line}: {failed.task} ended with exit code {failed.exit_code}."
    printer.show(LogLine("", text, notice=True))


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
