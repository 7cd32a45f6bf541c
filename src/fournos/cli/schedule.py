"""fournos schedule …: jobs at certain times; `schedule create` is in `schedule_create`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.text import Text

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.cli.command import Cli, CliSession, command_group, verb
from fournos.cli.errors import Exit
from fournos.cli.find import find_one, name_argument
from fournos.cli.list import EverywhereOption, ListTable, SelectorOption, show_list
from fournos.cli.output import condition_table, created_fact, details, phase_text, steps_table, table
from fournos.cli.schedule_create import create
from fournos.cli.stop import YesOption, ask
from fournos.client.errors import DeletedError
from fournos.client.handles import PATIENCE
from fournos.client.schedules import AsyncSchedule
from fournos.engine.api.values import format_time
from fournos.insight import schedules
from fournos.insight.jobs import cluster_of
from fournos.insight.schedule_manifests import moment_of
from fournos.insight.schedules import TIMES_SHOWN, clock_text, jobs_of, next_times, state, under_way
from fournos.insight.values import (
    Obj,
    count,
    created,
    key_of,
    moment,
    name_of,
    phase_of,
    short,
    since,
    spec_of,
    status_of,
)

COMMAND: Final = "fournos schedule"
NameArgument = Annotated[str, name_argument(FOURNOS_SCHEDULE)]

app = command_group("Schedules: jobs at certain times, such as every night.")
verb(app, "create")(create)


# --- list ------------------------------------------------------------------------------------------------


@verb(app, "list", "ls")
async def list_schedules(
    cli: Cli, selector: SelectorOption = "", everywhere: EverywhereOption = False
) -> None:
    """List schedules: their times, how the last fire ended, when the next one is.

    \b
    fournos schedule list
    fournos schedule list -A -o wide          policies, failures in a row, missed times
    """
    await show_list(
        cli,
        FOURNOS_SCHEDULE,
        _TABLE,
        lambda schedule: state(schedule, cli.world.now()),
        phases=None,
        selector=selector,
        everywhere=everywhere,
    )


def _row(schedule: Obj, now: datetime, wide: bool) -> list[str | Text]:
    spec, status = spec_of(schedule), status_of(schedule)
    last = status.get("lastFire") or {}
    row: list[str | Text] = [
        name_of(schedule),
        schedules.times_text(schedule),
        str(spec.get("timeZone") or "-"),
        _ago(status.get("lastStartTime") or last.get("time"), now),
        phase_text(str(last.get("outcome") or "-")),
        _until(status.get("nextTime"), now),
        phase_text(state(schedule, now)),
    ]
    if wide:
        row += [
            str(spec.get("concurrencyPolicy") or "-"),
            str(status.get("failures") or 0),
            str((status.get("missed") or {}).get("count") or 0),
        ]
    return [*row, schedules.message(schedule, now)]


def _ago(time: object, now: datetime) -> str:
    return f"{since(time, now)} ago" if time else "-"


def _until(time: object, now: datetime) -> str:
    then = moment(time)
    if then is None:
        return "-"
    return f"in {short(then - now)}" if then > now else "now"


_TABLE: Final = ListTable(
    ("NAME", "TIMES", "ZONE", "LAST", "OUTCOME", "NEXT", "STATE"), ("POLICY", "FAILURES", "MISSED"), _row
)


# --- get -------------------------------------------------------------------------------------------------


@verb(app, "get", "show")
async def get_schedule(cli: Cli, name: NameArgument) -> None:
    """Show a schedule: its last fire, its jobs that have not ended, missed times, and the next ten.

    \b
    fournos schedule get nightly
    fournos schedule get nightly -o yaml
    """
    async with cli.session() as session:
        schedule = await find_schedule(session, name)
        if cli.output.objects(FOURNOS_SCHEDULE, [schedule], single=True):
            return
        active = under_way(await jobs_of(session.api, schedule))
    cli.output.lines(detail(schedule, active, cli.world.now(), width=cli.output.width))


def detail(schedule: Obj, active: Sequence[Obj], now: datetime, *, width: int | None) -> list[Text]:
    """`active`: its jobs that have not ended."""
    inner = width and width - 2
    shown = {**schedule, "status": {**status_of(schedule), "phase": state(schedule, now)}}
    sections = (
        ("Active", _jobs(active, now, inner)),
        ("Next times", _next_times(schedule, now)),
        ("Conditions", condition_table(schedule, now, width)),
        ("Next", _commands(schedule, now)),
    )
    return details(shown, _facts(schedule, now), sections)


def _facts(schedule: Obj, now: datetime) -> list[tuple[str, object]]:
    return [
        ("Namespace", key_of(schedule).namespace),
        *schedules.facts(schedule),
        ("Created", created_fact(schedule, now) if created(schedule) else None),
        ("Message", schedules.message(schedule, now)),
    ]


def _jobs(active: Sequence[Obj], now: datetime, width: int | None) -> list[Text]:
    rows = [
        (name_of(job), phase_text(phase_of(job)), cluster_of(job), since(created(job), now)) for job in active
    ]
    return table(("NAME", "PHASE", "CLUSTER", "AGE"), rows, width=width) if rows else []


def _next_times(schedule: Obj, now: datetime) -> list[Text]:
    if state(schedule, now) is schedules.ScheduleState.INVALID:
        return []
    return [
        Text.assemble(clock_text(time), (f"  in {short(time - now)}", "dim"))
        for time in next_times(schedule, TIMES_SHOWN, now)
    ]


def _commands(schedule: Obj, now: datetime) -> list[Text]:
    name = name_of(schedule)
    steps = [
        (f"fournos schedule trigger {name}", "its jobs now"),
        (f"fournos list -l {schedules.jobs_selector(schedule)}", "all its jobs"),
    ]
    if schedules.is_suspended(schedule, now):
        steps.insert(0, (f"fournos schedule resume {name}", "go on"))
    return steps_table(steps)


async def find_schedule(session: CliSession, name: str) -> Obj:
    """Returns the schedule that `NAME` or `KIND/NAME` names.  Raises Fail if there is none."""
    bare = name.rpartition("/")[2]
    return await find_one(session, FOURNOS_SCHEDULE, bare, command=COMMAND, what="schedule")


# --- changes ---------------------------------------------------------------------------------------------


async def _handle(session: CliSession, name: str) -> AsyncSchedule:
    return AsyncSchedule(session, await find_schedule(session, name))


@verb(app, "suspend")
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
        schedule, now = await _handle(session, name), cli.world.now()
        end = None if until is None else moment_of(until, schedules.plan(schedule.raw).zone, now)
        await schedule.suspend(reason, until=end)
    length = f"until {format_time(end)}" if end else f"until: {COMMAND} resume {schedule.name}"
    cli.output.say(f"{schedule.name} suspended {length}")


@verb(app, "resume")
async def resume(cli: Cli, name: NameArgument) -> None:
    """Resume a suspended schedule. Times that have passed are not made up for.

    \b
    fournos schedule resume nightly
    """
    async with cli.session() as session:
        schedule = await _handle(session, name)
        await schedule.resume()
    times = next_times(schedule.raw, 1, cli.world.now())
    cli.output.say(f"{schedule.name} resumed" + "".join(f"; next: {clock_text(time)}" for time in times))


@verb(app, "trigger")
async def trigger(
    cli: Cli,
    name: NameArgument,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return at once, without the names of the jobs.")
    ] = False,
) -> int:
    """Make a fire by hand: the jobs of a schedule now. It moves no time, and works while it is suspended.

    The fire counts as active: with the policy Forbid a time that comes before its end is skipped.

    \b
    fournos schedule trigger nightly
    """
    async with cli.session() as session:
        schedule = await _handle(session, name)
        jobs = await schedule.trigger(timeout=0 if no_wait else PATIENCE)
    if no_wait:
        cli.output.say(f"{schedule.name} triggered")
        return Exit.OK
    if not jobs:
        cli.output.warn(f"no jobs were created. See: kubectl events --for fournosschedule/{schedule.name}")
        return Exit.FAILED
    if not cli.output.objects(FOURNOS_JOB, [job.raw for job in jobs]):
        cli.output.lines(f"{job.name} created" for job in jobs)
    return Exit.OK


@verb(app, "delete", "rm")
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
        schedule = await _handle(session, name)
        jobs = await jobs_of(session.api, schedule.raw)
        active = f" ({len(under_way(jobs))} of them under way)" if under_way(jobs) else ""
        extra = f" and its {count(len(jobs), 'job')}{active}" if cascade and jobs else ""
        ask(cli, f"Really delete schedule {schedule.name}{extra}?", yes)
        # First the schedule, so that it creates no more jobs.
        await schedule.delete()
        cli.output.say(f"{schedule.name} deleted")
        if not cascade:
            if jobs:
                cli.output.say(f"{count(len(jobs), 'job')} stay{'s' if len(jobs) == 1 else ''}{active}")
                cli.output.hint(f"See them: fournos list -l {schedules.jobs_selector(schedule.raw)}")
            return
        # Listed again: the operator may have created jobs since.
        for job in await schedule.jobs():
            with suppress(DeletedError):  # it has gone since
                await job.delete()
            cli.output.say(f"{job.name} deleted")
