"""fournos list: many jobs at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.command import Cli
from fournos.cli.formatting import phase_text
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.insight.selection import cluster_of, matches, newest_first, wanted_phases
from fournos.insight.values import (
    between,
    created,
    display_name,
    hardware,
    is_terminal,
    name_of,
    one_line,
    phase_of,
    since,
    spec_of,
    status_of,
)
from fournos.kube.resource import Obj


async def list_jobs(
    cli: Cli,
    phase: Annotated[
        list[str] | None,
        typer.Option(
            "--phase",
            metavar="PHASE",
            help="Only jobs in this phase, such as Running; repeat it, or write several with commas. "
            "'active' means all that have not ended.",
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Only jobs of this owner.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Only jobs on, or asking for, this cluster."),
    ] = None,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Only jobs with these labels: a=b,c!=d.")
    ] = "",
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")
    ] = False,
) -> None:
    """List jobs, newest first.

    \b
    fournos list                          all jobs of the namespace
    fournos list --phase active           what has not ended
    fournos list --phase Pending,Running --cluster cluster-1
    fournos list -A --owner perf-team -o wide
    fournos list -o name --phase Failed | xargs fournos delete --yes
    """
    phases = wanted_phases(phase or ())
    async with cli.session() as session:
        namespace = "" if everywhere else session.namespace
        found = (await session.api.list(FOURNOS_JOB, namespace=namespace, selector=selector)).items
    jobs = newest_first(job for job in found if matches(job, phases=phases, owner=owner, cluster=cluster))
    if cli.output.objects(FOURNOS_JOB, jobs):
        return
    if not jobs:
        where = "any namespace" if everywhere else f"namespace {namespace}"
        which = "No such jobs" if found else "No jobs"
        cli.output.hint(f"{which} in {where}.")
        return
    wide = cli.output.form is Format.WIDE
    rows = view(jobs, now=cli.world.now(), wide=wide, namespaces=everywhere, width=cli.output.width)
    cli.output.lines(rows)


def view(
    jobs: Sequence[Obj], *, now: datetime, wide: bool, namespaces: bool, width: int | None
) -> list[Text]:
    header = ["NAME", "PHASE", "CLUSTER", "GPUS", "OWNER", "AGE", "RAN"]
    if wide:
        header += ["PIPELINE", "EXCLUSIVE", "PRIORITY", "ATTEMPT", "DISPLAY NAME"]
    header += ["MESSAGE"]
    rows = [_row(job, now, wide) for job in jobs]
    if namespaces:
        header.insert(0, "NAMESPACE")
        for row, job in zip(rows, jobs, strict=True):
            row.insert(0, str(job["metadata"].get("namespace") or ""))
    return table(header, rows, width=width)


def _row(job: Obj, now: datetime, wide: bool) -> list[str | Text]:
    spec, status = spec_of(job), status_of(job)
    row: list[str | Text] = [
        name_of(job),
        phase_text(phase_of(job)),
        cluster_of(job),
        hardware(job),
        str(spec.get("owner") or "-"),
        since(created(job), now),
        ran(job, now),
    ]
    if wide:
        row += [
            str(spec.get("pipeline") or "-"),
            "yes" if spec.get("exclusive", True) else "no",
            str(spec.get("priority") or "-"),
            str(status.get("attempt") or "-"),
            display_name(job),
        ]
    return [*row, one_line(status.get("message"))]


def ran(job: Obj, now: datetime) -> str:
    """The duration of the last run, until now if it is active; "-" if there was none."""
    times: dict[str, Any] = status_of(job).get("phaseTimes") or {}
    end = times.get("finished") if is_terminal(job) else None
    return between(times.get("running"), end, now)
