"""fournos schedule suspend, resume, trigger and delete."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.cli.command import Cli, CliSession, verb
from fournos.cli.exits import Exit
from fournos.cli.find import find_one, name_argument
from fournos.cli.manifest import assignment
from fournos.cli.stop import YesOption, ask
from fournos.client.asynchronous import AsyncClient
from fournos.client.handles import PATIENCE
from fournos.client.schedules import AsyncSchedule
from fournos.engine.api.times import format_time
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.insight.schedule_changes import moment_of, resume_change, suspend_change
from fournos.insight.schedule_preview import clock_text
from fournos.insight.schedules import jobs_of, jobs_selector, next_times, plan, under_way
from fournos.insight.values import count, name_of

COMMAND = "fournos schedule"
NameArgument = Annotated[str, name_argument(FOURNOS_SCHEDULE)]


def install(app: typer.Typer) -> None:
    verb(app, "suspend")(suspend)
    verb(app, "resume")(resume)
    verb(app, "trigger")(trigger)
    verb(app, "delete", "rm")(delete)


async def find_schedule(session: CliSession, name: str) -> Obj:
    """Returns the schedule that `NAME` or `KIND/NAME` names.  Raises Fail if there is none."""
    bare = name.rpartition("/")[2]
    return await find_one(session, FOURNOS_SCHEDULE, bare, command=COMMAND, what="schedule")


async def suspend(
    cli: Cli,
    name: NameArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; others see it.")] = "",
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="When it goes on by itself: 7d, or 2026-12-27T08:00 in the schedule's zone.",
        ),
    ] = None,
) -> None:
    """Suspend a schedule: it creates no jobs until it is resumed. What runs goes on.

    \b
    fournos schedule suspend nightly --reason "the cluster gets new GPUs"
    fournos schedule suspend nightly --until 2026-12-27
    """
    async with cli.session() as session:
        schedule, now = await find_schedule(session, name), cli.world.now()
        end = None if until is None else moment_of(until, plan(schedule).zone, now)
        change = suspend_change(reason=reason, until=end, now=now)
        await session.api.patch(FOURNOS_SCHEDULE, key_of(schedule), change)
    length = f"until {format_time(end)}" if end else f"until: {COMMAND} resume {name_of(schedule)}"
    cli.output.say(f"{name_of(schedule)} suspended {length}")


async def resume(cli: Cli, name: NameArgument) -> None:
    """Resume a suspended schedule. Times that have passed are not made up for.

    \b
    fournos schedule resume nightly
    """
    async with cli.session() as session:
        schedule = await find_schedule(session, name)
        change = resume_change(schedule)
        resumed = await session.api.patch(FOURNOS_SCHEDULE, key_of(schedule), change)
    times = next_times(resumed, 1, cli.world.now())
    cli.output.say(f"{name_of(schedule)} resumed" + "".join(f"; next: {clock_text(time)}" for time in times))


async def trigger(
    cli: Cli,
    name: NameArgument,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Set a field of the job's spec in this fire; the value is YAML, an empty one removes it. "
            "Repeatable.",
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return at once, without the names of the jobs.")
    ] = False,
) -> int:
    """Make a fire by hand: the jobs of a schedule now. It moves no time, and works while it is suspended.

    The fire counts as active: with the policy Forbid a time that comes before its end is skipped.

    \b
    fournos schedule trigger nightly
    fournos schedule trigger nightly --set params.model=b
    """
    changes = dict(assignment(text) for text in assignments or ())
    async with cli.session() as session:
        client = AsyncClient(api=session.api, namespace=session.namespace, owner=cli.me)
        schedule = AsyncSchedule(client, await find_schedule(session, name))
        jobs = await schedule.trigger(changes, timeout=0 if no_wait else PATIENCE)
    if no_wait:
        cli.output.say(f"{schedule.name} triggered")
        return Exit.OK
    if not jobs:
        cli.output.warn(f"no jobs were created. See: kubectl events --for fournosschedule/{schedule.name}")
        return Exit.FAILED
    if not cli.output.objects(FOURNOS_JOB, [job.raw for job in jobs]):
        cli.output.lines(f"{job.name} created" for job in jobs)
    return Exit.OK


async def delete(
    cli: Cli,
    name: NameArgument,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also its jobs, those that run included.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete a schedule. Its jobs stay, and those that run go on, unless --cascade is given.

    On a terminal it asks first.

    \b
    fournos schedule delete nightly
    fournos schedule delete nightly --cascade --yes
    """
    async with cli.session() as session:
        schedule = await find_schedule(session, name)
        jobs = await jobs_of(session.api, schedule)
        active = f" ({len(under_way(jobs))} of them under way)" if under_way(jobs) else ""
        extra = f" and its {count(len(jobs), 'job')}{active}" if cascade and jobs else ""
        ask(cli, f"Really delete schedule {name_of(schedule)}{extra}?", yes)
        # First the schedule, so that it creates no more jobs.
        await session.api.delete(FOURNOS_SCHEDULE, key_of(schedule), uid=uid_of(schedule))
        cli.output.say(f"{name_of(schedule)} deleted")
        if not cascade:
            if jobs:
                cli.output.say(f"{count(len(jobs), 'job')} stay{'s' if len(jobs) == 1 else ''}{active}")
                cli.output.hint(f"See them: fournos list -l {jobs_selector(schedule)}")
            return
        # Listed again: the operator may have created jobs since.
        for job in await jobs_of(session.api, schedule):
            with suppress(NotFoundError):  # it has gone since
                await session.api.delete(FOURNOS_JOB, key_of(job), uid=uid_of(job))
            cli.output.say(f"{name_of(job)} deleted")
