"""fournos watch and fournos wait: follow a job until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import Phase
from fournos.cli.command import Cli, CliSession
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import NameArgument, find_job
from fournos.cli.output import connection_text, phase_text, progress
from fournos.client.watches import Follower
from fournos.engine.api.values import parse_duration
from fournos.insight.children import RUN_KINDS, Task, tasks
from fournos.insight.values import Obj, is_terminal, name_of, one_line, phase_of, status_of

ENDS: Final[Mapping[str, Exit]] = {
    Phase.SUCCEEDED: Exit.OK,
    Phase.FAILED: Exit.FAILED,
    Phase.STOPPED: Exit.STOPPED,
}
_REDRAW: Final = 1.0
_RECORDING: Final = 120.0
"""Seconds that the history may take to record a job that has ended."""


async def watch(cli: Cli, name: NameArgument) -> int:
    """Follow a job live: its phases and its tasks.

    The exit code is the job's: 0 succeeded, 1 failed, 3 stopped. Ctrl-C ends the watching, not the job.

    \b
    fournos watch @last
    fournos watch nightly-x7k2m && echo done
    """
    async with cli.session() as session:
        job = await find_job(cli, session, name)
        return await follow_to_end(cli, session, job)


async def wait(
    cli: Cli,
    name: NameArgument,
    limit: Annotated[
        str | None,
        typer.Option("--timeout", metavar="DURATION", help="Give up after this time, such as 90s or 2h30m."),
    ] = None,
    recorded: Annotated[
        bool,
        typer.Option(
            "--recorded", help="Wait until the history has it, too, so that `trend` knows what it measured."
        ),
    ] = False,
) -> int:
    """Wait, silently, until a job ends.

    Exit code: 0 succeeded, 1 failed, 3 stopped, 4 the time limit passed, 5 the job was deleted.

    \b
    fournos wait @last --timeout 2h
    fournos submit -f job.yaml -o name | xargs fournos wait && ./collect-results
    fournos wait @last --recorded && fournos trend @last --fail-on regression
    """
    length = seconds(limit) if limit else None
    async with cli.session() as session:
        job = await find_job(cli, session, name)
        try:
            async with asyncio.timeout(length), Follower(session.api, job) as follower:
                job = await _to_end(follower)
                if recorded:
                    job = await _to_record(follower)
        except TimeoutError:
            raise Fail(
                f"{name_of(job)} has not ended within {limit}",
                fix=f"see what it does: fournos watch {name_of(job)}; why it waits: fournos explain "
                f"{name_of(job)}",
                code=Exit.TIMEOUT,
            ) from None
    if not cli.output.objects(FOURNOS_JOB, [job], single=True):
        cli.output.say(_last_line(job))
    return ENDS[phase_of(job)]


def seconds(text: str) -> float:
    """Parses a duration such as 2h30m into seconds.  Raises Fail unless it is positive."""
    try:
        length = parse_duration(text).total_seconds()
    except ValueError as error:
        raise Fail(str(error), fix="write a duration such as 90s, 30m or 2h30m") from None
    if length <= 0:
        raise Fail(f"{text} is not a positive duration", fix="write a duration such as 90s, 30m or 2h30m")
    return length


async def follow_to_end(cli: Cli, session: CliSession, job: Obj, *, quiet: bool = False) -> int:
    """Follows the job until it ends and returns its exit code.

    `quiet` shows nothing: the output was already written in another format.
    """
    async with Follower(session.api, job, RUN_KINDS) as follower:
        if quiet or cli.output.structured:
            job = await _to_end(follower)
        elif cli.output.out.is_terminal:
            job = await _live(cli, follower)
        else:
            job = await _lines(cli, follower)
    if not quiet and not cli.output.objects(FOURNOS_JOB, [job], single=True):
        cli.output.say(_last_line(job))
    return ENDS[phase_of(job)]


async def _to_end(follower: Follower) -> Obj:
    while not is_terminal(follower.job):
        await follower.change()
    return follower.job


async def _to_record(follower: Follower) -> Obj:
    """Waits until the recorder has noted that it has all of the job.  Raises Fail if it does not in time."""
    try:
        async with asyncio.timeout(_RECORDING):
            while not status_of(follower.job).get("archivedAt"):
                await follower.change()
    except TimeoutError:
        raise Fail(
            f"the history has not recorded {name_of(follower.job)} within {_RECORDING:g} s of its end",
            fix="check that there is one, and what is missing: fournos doctor",
            code=Exit.TIMEOUT,
        ) from None
    return follower.job


def _seen(follower: Follower) -> tuple[Obj, list[Task]]:
    job, children = follower.job, follower.children
    return job, tasks(children.run(job), children.task_runs)


async def _live(cli: Cli, follower: Follower) -> Obj:
    """Shows a live view, redrawn at each change, and every second for the durations."""
    with Live(console=cli.output.out, auto_refresh=False) as screen:
        while True:
            job, found = _seen(follower)
            lines = progress(job, found, cli.world.now())
            if watch_error := follower.watch_error:
                lines.append(Text(f"  Connection lost, trying again: {watch_error}", style="yellow"))
            screen.update(Group(*lines), refresh=True)
            if is_terminal(job):
                return job
            await follower.change(within=_REDRAW)


async def _lines(cli: Cli, follower: Follower) -> Obj:
    """Prints a line for each change, for pipes and logs."""
    before: tuple[Obj, list[Task]] | None = None
    is_broken = False
    while True:
        job, tasks = _seen(follower)
        cli.output.lines(changes(before, (job, tasks), cli.world.now()))
        before = (job, tasks)
        if (follower.watch_error is not None) is not is_broken:
            is_broken = not is_broken
            cli.output.warn(connection_text(follower.watch_error))
        if is_terminal(job):
            return job
        await follower.change()


def changes(
    before: tuple[Obj, list[Task]] | None, after: tuple[Obj, list[Task]], now: datetime
) -> list[Text]:
    """Returns a line for a new phase or message, and for each task whose state has changed."""
    clock = now.strftime("%H:%M:%SZ")
    (job, tasks) = after
    (old_job, old_tasks) = before or (None, [])
    lines = []
    if old_job is None or _told(old_job) != _told(job):
        phase, message = _told(job)
        lines.append(
            Text.assemble((clock, "dim"), "  ", phase_text(phase), f"  {message}" if message else "")
        )
    states = {task.name: task.state for task in old_tasks}
    for task in tasks:
        if task.state != states.get(task.name, "Waiting"):
            line = Text.assemble((clock, "dim"), f"  task {task.name}: {task.state}")
            if task.message and task.state != "Running":
                line.append(f"  {task.message}")
            lines.append(line)
    return lines


def _told(job: Obj) -> tuple[str, str]:
    return phase_of(job), one_line(status_of(job).get("message"))


def _last_line(job: Obj) -> Text:
    message = one_line(status_of(job).get("message"))
    line = Text.assemble((name_of(job), "bold"), " ", phase_text(phase_of(job)))
    return line.append(f": {message}") if message else line
