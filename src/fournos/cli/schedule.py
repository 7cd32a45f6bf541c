"""fournos schedule …: jobs at certain times.

The commands that write are in `schedule_create` and `schedule_change`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.text import Text

from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.cli.command import Cli, command_group, verb
from fournos.cli.details import condition_table, created_fact, details, steps_table
from fournos.cli.errors import Fail
from fournos.cli.find import completion
from fournos.cli.formatting import phase_text
from fournos.cli.listing import EverywhereOption, ListTable, SelectorOption, show_list
from fournos.cli.manifest import read
from fournos.cli.output import table
from fournos.cli.schedule_change import NameArgument, find_schedule
from fournos.cli.schedule_change import install as install_change
from fournos.cli.schedule_create import create
from fournos.cli.schedule_import import import_schedules
from fournos.engine.api.times import format_time
from fournos.engine.kube.resource import Obj, key_of
from fournos.insight import schedules
from fournos.insight.schedule_changes import moment_of
from fournos.insight.schedule_manifests import read_schedule
from fournos.insight.schedule_preview import MOST_TIMES, ScheduledTime, clock_text
from fournos.insight.schedules import jobs_of, next_times, preview_of, state, under_way
from fournos.insight.selection import cluster_of
from fournos.insight.values import created, moment, name_of, phase_of, short, since, spec_of, status_of

_TIMES_SHOWN: Final = 3

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
    """Show a schedule: its last fire, its jobs that have not ended, missed times, and the next ones.

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
        Text.assemble(clock_text(time, precise=time.second > 0), (f"  in {short(time - now)}", "dim"))
        for time in next_times(schedule, _TIMES_SHOWN, now)
    ]


def _commands(schedule: Obj, now: datetime) -> list[Text]:
    name = name_of(schedule)
    steps = [
        (f"fournos schedule preview {name}", "more of its times"),
        (f"fournos schedule trigger {name}", "its jobs now"),
        (f"fournos list -l {schedules.jobs_selector(schedule)}", "all its jobs"),
    ]
    if schedules.pause_of(schedule, now) is not None:
        steps.insert(0, (f"fournos schedule resume {name}", "go on"))
    return steps_table(steps)


# --- preview ---------------------------------------------------------------------------------------------


@verb(app, "preview")
async def preview_schedule(
    cli: Cli,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the schedule.",
            autocompletion=completion(FOURNOS_SCHEDULE),
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Of this manifest; - is standard input. Needs no cluster.",
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("--number", metavar="N", min=1, max=MOST_TIMES, help="How many times.")
    ] = 10,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="From when on, in the schedule's zone: 2026-03-28 or 2026-03-28T12:00; default: now.",
        ),
    ] = None,
) -> None:
    """Show the next times with their UTC offsets, and what clock changes and exclusions do to them.

    \b
    fournos schedule preview nightly
    fournos schedule preview nightly --from 2026-10-20
    fournos schedule preview -f schedule.yaml --number 30
    """
    if (name is None) == (file is None):
        raise Fail("preview takes a name or a file", fix="write one of them: NAME, or -f FILE")
    if file is not None:
        schedule: Obj = read_schedule(read(file), "standard input" if file == "-" else file)
    else:
        async with cli.session() as session:
            schedule = await find_schedule(session, str(name))
    now = cli.world.now()
    start = now if begin is None else moment_of(begin, schedules.plan(schedule).zone, now)
    times = preview_of(schedule, start, number, now)
    if cli.output.structured:
        cli.output.data({"times": [_data(time) for time in times]})
        return
    cli.output.lines(times_table(times, width=cli.output.width))
    if (jitter := spec_of(schedule).get("jitterSeconds")) and file is not None:
        cli.output.hint(
            f"Each starts up to {jitter} s later: how much is known when the schedule is created."
        )


def _data(time: ScheduledTime) -> dict[str, str | None]:
    return {
        "time": time.clock.isoformat(),
        "starts": format_time(time.starts) if time.starts else None,
        "note": time.note,
    }


def times_table(times: Sequence[ScheduledTime], *, width: int | None) -> list[Text]:
    """Returns the times; when their jobs start only if jitter makes that another time."""
    jitter = any(time.starts and time.starts != time.clock.astimezone(UTC) for time in times)
    rows: list[list[str | Text]] = []
    for time in times:
        row: list[str | Text] = [clock_text(time.clock), Text(time.note, style="yellow")]
        if jitter:
            starts = time.starts.astimezone(time.clock.tzinfo) if time.starts else None
            row.insert(1, f"{starts:%H:%M:%S}" if starts else "-")
        rows.append(row)
    return table(["TIME", *(["STARTS"] if jitter else []), "NOTE"], rows, width=width)


install_change(app)
verb(app, "import")(import_schedules)
