"""fournos list: many jobs at a glance."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.command import Cli
from fournos.cli.formatting import phase_text
from fournos.cli.options import AllClustersOption, Format
from fournos.cli.output import table
from fournos.engine.kube.resource import Obj
from fournos.insight.selection import cluster_of, matches, newest_first, wanted_labels, wanted_phases
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
    all_time: Annotated[
        bool,
        typer.Option("--all-time", help="From the history: also jobs that are gone. Needs a history."),
    ] = False,
    all_clusters: AllClustersOption = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="With --all-time: at most so many, the newest.")
    ] = 50,
) -> None:
    """List jobs, newest first.

    \b
    fournos list                          all jobs of the namespace
    fournos list --phase active           what has not ended
    fournos list --phase Pending,Running --cluster cluster-1
    fournos list -A --owner perf-team -o wide
    fournos list -o name --phase Failed | xargs fournos delete --yes
    fournos list --all-time --owner perf-team
    fournos list --all-clusters           as --all-time
    """
    phases = wanted_phases(phase or ())
    if all_time or all_clusters:
        reach = {"everywhere": everywhere, "all_clusters": all_clusters}
        await _all_time(cli, phases, owner, cluster, selector, limit=limit, **reach)
        return
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


async def _all_time(
    cli: Cli,
    phases: Collection[str],
    owner: str | None,
    cluster: str | None,
    selector: str,
    *,
    everywhere: bool,
    all_clusters: bool,
    limit: int,
) -> None:
    from fournos.cli.stored import history_of, run_data, run_table

    async with cli.session() as session:
        found = [
            run
            async for run in history_of(session, all_clusters=all_clusters).runs(
                everywhere=everywhere,
                kind="FournosJob",
                phase=tuple(phases),
                owner=owner or (),
                cluster=cluster or (),
                labels=wanted_labels(selector),
                limit=limit,
            )
        ]
    if cli.output.structured:
        cli.output.data([run_data(run) for run in found])
    elif not found:
        cli.output.hint("The history has no such jobs.")
    else:
        now = cli.world.now()
        cli.output.lines(run_table(found, now=now, namespaces=everywhere, width=cli.output.width))
        if len(found) == limit:
            cli.output.hint(f"The newest {limit}; more with --limit.")


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
