"""fournos schedule create: a schedule of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from fournos.api.fournosschedule import ConcurrencyPolicy
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.cli.again import SetOption
from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.submit import (
    DryRun,
    DryRunOption,
    ForceOption,
    OwnerOption,
    SetStringOption,
    documents_of,
    put,
    refuse_unknown,
)
from fournos.client.submission import axis
from fournos.engine.api.values import parse_duration
from fournos.insight.manifests import place, with_owner
from fournos.insight.schedule_manifests import jobs_of_fire, schedule_manifest
from fournos.insight.schedules import clock_text, next_times
from fournos.insight.values import Obj, count, name_of

_TIMES_SHOWN: Final = 3


CronOption = Annotated[
    list[str],
    typer.Option(
        "--cron",
        metavar="TIMES",
        help="Five fields as in Debian's cron, or @hourly, @daily, @weekly, @monthly, @yearly. Repeatable.",
    ),
]
ZoneOption = Annotated[
    str, typer.Option("--time-zone", metavar="ZONE", help="Time zone of the times, such as Europe/Berlin.")
]
AxesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--axis",
        metavar="PATH=VALUES",
        help="A field of the job's spec and its values, with commas: a job for each combination. Repeatable.",
    ),
]
ConcurrencyOption = Annotated[
    ConcurrencyPolicy | None,
    typer.Option(
        "--concurrency",
        case_sensitive=False,
        help="At a time at which jobs of an earlier one have not ended: skip it (Forbid, the default), "
        "stop the earlier jobs (Replace), run beside them (Allow).",
    ),
]
DeadlineOption = Annotated[
    str | None,
    typer.Option("--deadline", metavar="TIME", help="How late jobs may be created, such as 30m."),
]


async def create(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.", show_default=False)],
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="Manifest of the job; - is standard input.")
    ],
    cron: CronOption,
    time_zone: ZoneOption,
    axes: AxesOption = None,
    assignments: SetOption = None,
    texts: SetStringOption = None,
    owner: OwnerOption = None,
    concurrency: ConcurrencyOption = None,
    deadline: DeadlineOption = None,
    dry_run: DryRunOption = None,
    force: ForceOption = False,
) -> None:
    """Create a schedule: the job of a file, or a matrix of it, at certain times.

    Times, time zone and each job are checked first, as submit checks a job; then its next times are printed.

    \b
    fournos schedule create nightly -f job.yaml --cron '0 2 * * *' --time-zone Europe/Berlin
    fournos schedule create weekly -f job.yaml --cron @weekly --time-zone Etc/UTC --axis params.model=a,b
    fournos schedule create nightly -f job.yaml --cron '0 2 * * *' --time-zone Etc/UTC --dry-run client
    """
    job = _job(file, assignments=assignments or (), texts=texts or (), owner=owner)
    fields = {
        "concurrencyPolicy": concurrency and concurrency.value,
        "startingDeadlineSeconds": deadline and _seconds(deadline),
    }
    manifest = schedule_manifest(
        name,
        job,
        cron,
        time_zone,
        matrix=dict(axis(text, option="--axis ") for text in axes or ()),
        fields={field: value for field, value in fields.items() if value},
    )
    if dry_run is DryRun.CLIENT:
        if cli.common.namespace:
            place(manifest, asked=cli.common.namespace, otherwise="")
        _show(cli, manifest)
        return
    async with cli.session() as session:
        place(manifest, asked=cli.common.namespace, otherwise=session.namespace)
        if not force:
            await refuse_unknown(session, [dict(job) for job in jobs_of_fire(manifest)])
        created = await session.api.create(FOURNOS_SCHEDULE, manifest, dry_run=dry_run is DryRun.SERVER)
    if dry_run is DryRun.SERVER:
        _show(cli, created)
    elif not cli.output.objects(FOURNOS_SCHEDULE, [created], single=True):
        _report(cli, created, jobs=len(jobs_of_fire(manifest)))


def _job(file: str, *, assignments: Sequence[str], texts: Sequence[str], owner: str | None) -> dict[str, Any]:
    """Returns the only job of the file, with the changes of the options.  Raises Fail."""
    documents = documents_of([file])
    if len(documents) != 1:
        raise Fail(
            f"{file} holds {len(documents)} jobs", fix="name a file with one; --axis makes several of it"
        )
    job = documents[0][1]
    for assignment in assignments:
        put(job, assignment)
    for assignment in texts:
        put(job, assignment, text=True)
    return with_owner(job, owner)


def _seconds(text: str) -> int:
    try:
        return int(parse_duration(text).total_seconds())
    except ValueError as error:
        raise Fail(f"--deadline: {error}", fix="write it like --deadline 30m or --deadline 1h30m") from None


def _show(cli: Cli, manifest: Obj) -> None:
    """Prints the manifest of a dry run, as YAML unless `-o` selects another format."""
    if not cli.output.objects(FOURNOS_SCHEDULE, [manifest], single=True):
        cli.output.data(manifest)


def _report(cli: Cli, schedule: Obj, *, jobs: int) -> None:
    name = name_of(schedule)
    cli.output.say(f"{name} created in {schedule['metadata']['namespace']}: {count(jobs, 'job')} each time")
    for time in next_times(schedule, _TIMES_SHOWN, cli.world.now()):
        cli.output.say(f"  {clock_text(time)}")
    if cli.output.interactive:
        cli.output.hint(f"Its jobs now: fournos schedule trigger {name}")
