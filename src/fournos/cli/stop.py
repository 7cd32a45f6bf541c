"""fournos stop, hold, release and delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from fournos.api.phase import HOLDING
from fournos.cli.command import Cli, CliSession
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import NamesArgument, find_job
from fournos.client.jobs import AsyncJob
from fournos.insight.jobs import JobChange
from fournos.insight.values import count, spec_of

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


async def stop(
    cli: Cli,
    names: NamesArgument,
    now: Annotated[
        bool, typer.Option("--now", help="Terminate: skip the finally tasks (spec.shutdown: Terminate).")
    ] = False,
    yes: YesOption = False,
) -> int:
    """Stop jobs: cancel their runs, let the finally tasks clean up, give the quota back.

    A job that has ended already is not touched; the exit code is then 7. On a terminal it asks first
    when --now skips finally tasks, and for several jobs.

    \b
    fournos stop @last
    fournos stop nightly-x7k2m --now          skip the finally tasks
    fournos list -o name --owner me --phase active | xargs fournos stop
    """
    async with cli.session() as session:
        jobs = await _found(cli, session, names)
        if now or len(jobs) > 1:
            what = "terminate, without finally tasks," if now else "stop"
            ask(cli, f"Really {what} {_list(jobs)}?", yes)
        return await _changed(cli, jobs, lambda job: job.stop(now=now))


async def hold(cli: Cli, names: NamesArgument, yes: YesOption = False) -> int:
    """Hold jobs: they leave the queue, and give their quota back, until they are released.

    The run of a job that is under way is stopped first, with its finally tasks. On a terminal it asks then.

    \b
    fournos hold nightly-x7k2m
    fournos list -o name --owner me --phase Pending | xargs fournos hold
    """
    async with cli.session() as session:
        jobs = await _found(cli, session, names)
        live = [job for job in jobs if job.phase in HOLDING and not spec_of(job.raw).get("suspend")]
        if live:
            ask(cli, f"Really stop {_list(live)} until released?", yes)
        return await _changed(cli, jobs, AsyncJob.hold)


async def release(cli: Cli, names: NamesArgument) -> int:
    """Release held jobs: they are queued again.

    \b
    fournos release nightly-x7k2m
    """
    async with cli.session() as session:
        return await _changed(cli, await _found(cli, session, names), AsyncJob.release)


async def _changed(
    cli: Cli, jobs: Sequence[AsyncJob], change: Callable[[AsyncJob], Awaitable[JobChange]]
) -> int:
    """Changes each job and says what was done; the exit code shows whether one had ended."""
    worst = Exit.OK
    for job in jobs:
        verdict = await change(job)
        (cli.output.warn if verdict.ended else cli.output.say)(verdict.message)
        worst = max(worst, Exit.FINISHED if verdict.ended else Exit.OK)
    return worst


async def delete(cli: Cli, names: NamesArgument, yes: YesOption = False) -> None:
    """Delete jobs, with all that was made for them: runs, logs, copies of secrets.

    A run that is under way is stopped first; its finally tasks get a bounded time. On a terminal it asks
    first.

    \b
    fournos delete nightly-x7k2m
    fournos list -o name --phase Succeeded | xargs fournos delete --yes
    """
    async with cli.session() as session:
        jobs = await _found(cli, session, names)
        live = [job for job in jobs if job.phase in HOLDING]
        extra = f" ({count(len(live), 'run')} under way will be stopped)" if live else ""
        ask(cli, f"Really delete {_list(jobs)}{extra}?", yes)
        for job in jobs:
            await job.delete()
            stopping = ", once its run has stopped" if job in live else ""
            cli.output.say(f"{job.name} deleted{stopping}")


async def _found(cli: Cli, session: CliSession, names: list[str]) -> list[AsyncJob]:
    """Returns the named jobs, each once.  Raises Fail if one is missing, before any job is changed."""
    jobs = [AsyncJob(session, await find_job(cli, session, name)) for name in names]
    return list({job.uid: job for job in jobs}.values())


def _list(jobs: Sequence[AsyncJob]) -> str:
    names = [job.name for job in jobs]
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:5])} and {len(names) - 5} more"


def ask(cli: Cli, question: str, yes: bool) -> None:
    """Asks for confirmation, but only on a terminal: a script must not block."""
    if not yes and cli.output.interactive and not typer.confirm(question, err=True):
        raise Fail("nothing was done", fix="answer y, or use --yes", code=Exit.USAGE)
