"""fournos get: one job in detail."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from rich.text import Text

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.command import Cli, CliSession
from fournos.cli.find import NameArgument, find_job
from fournos.cli.output import (
    condition_table,
    created_fact,
    details,
    phase_style,
    section,
    steps_table,
    table,
    task_lines,
)
from fournos.cli.stored import result_table, results_within_a_second, waited_line
from fournos.client.errors import MissingError, NoHistoryError
from fournos.client.job_methods import RecordedJob, recorded_job
from fournos.engine.api.conditions import condition, is_true
from fournos.insight.children import Children, children, tasks
from fournos.insight.quota import workload_state
from fournos.insight.values import (
    Obj,
    between,
    created,
    display_name,
    hardware,
    is_terminal,
    name_of,
    one_line,
    phase_of,
    short,
    since,
    spec_of,
    status_of,
    timeline,
)

_RESULTS = 12
"""KPIs that are shown of a job; `fournos results list` shows all."""


async def get(cli: Cli, name: NameArgument) -> None:
    """Show a job: its phases, conditions, attempts and what was made for it.

    \b
    fournos get @last
    fournos get nightly-x7k2m -o yaml

    A job that is deleted is shown from the history, where there is one.
    """
    async with cli.session() as session:
        try:
            job = await find_job(cli, session, name)
        except MissingError as missing:
            await _gone(cli, session, name, missing)
            return
        if cli.output.objects(FOURNOS_JOB, [job], single=True):
            return
        found = await children(session.api, job)
        measured = await _measured(session, job)
    cli.output.lines(detail(job, found, cli.world.now(), measured, width=cli.output.width))


async def _measured(session: CliSession, job: Obj) -> list[Text]:
    """Returns what the history has of the results of a job that has ended."""
    if not is_terminal(job):
        return []
    return result_table(await results_within_a_second(session, job), most=_RESULTS)


async def _gone(cli: Cli, session: CliSession, name: str, missing: MissingError) -> None:
    """Shows a job that only the history has."""
    stored: RecordedJob | None = None
    with suppress(NoHistoryError):
        stored = await recorded_job(session.history, name)
    if stored is None:
        raise missing
    job, run = stored.job, stored.run
    measured = await _measured(session, job)
    cli.output.hint(f"{name} is gone from the cluster; this is from the history.")
    if cli.output.objects(FOURNOS_JOB, [job], single=True):
        return
    now = cli.world.now()
    lines = detail(job, Children(), now, measured, width=cli.output.width)
    if waited := waited_line(run.run, now):
        lines += section("Waited for", [waited])
    cli.output.lines(lines)


def detail(
    job: Obj, dependents: Children, now: datetime, measured: list[Text] | None = None, *, width: int | None
) -> list[Text]:
    """`measured`: the lines of its results."""
    sections = (
        ("Phases", _phases(job, dependents, now)),
        ("Results", measured or []),
        ("Conditions", condition_table(job, now, width)),
        ("Attempts", _attempts(job, now, width)),
        ("Children", _children(dependents, now, width)),
        ("Next", next_steps(job)),
    )
    return details(job, _facts(job, now), sections)


def _facts(job: Obj, now: datetime) -> list[tuple[str, Any]]:
    spec, status = spec_of(job), status_of(job)
    return [
        ("Display name", display_name(job)),
        ("Namespace", job["metadata"].get("namespace")),
        ("Owner", spec.get("owner")),
        ("Pipeline", spec.get("pipeline")),
        ("Engine", next(iter(spec.get("executionEngine") or ()), None)),
        ("Cluster", _cluster(job)),
        ("GPUs", hardware(job) if hardware(job) != "-" else None),
        ("Priority", spec.get("priority")),
        ("Secrets", ", ".join(spec.get("secretRefs") or ())),
        ("Created", created_fact(job, now)),
        ("Retry at", status.get("retryAt")),
        ("Dashboard", status.get("dashboardURL")),
        ("Message", one_line(status.get("message"))),
    ]


def _cluster(job: Obj) -> str:
    spec = spec_of(job)
    if spec.get("clusterless"):
        return "none (clusterless)"
    where = str(status_of(job).get("cluster") or spec.get("cluster") or "any that has room")
    if spec.get("lockOnly"):
        return f"{where} (lock only)"
    return f"{where} ({'exclusive' if spec.get('exclusive', True) else 'shared'})"


def _phases(job: Obj, dependents: Children, now: datetime) -> list[Text]:
    lines = []
    for entry in timeline(job, now):
        style = phase_style(entry.phase) if entry.current else ""
        line = Text.assemble((f"{entry.phase:<10} ", style), short(entry.length))
        lines.append(line.append(" so far") if entry.current else line)
        if entry.phase == "Running":
            lines += task_lines(tasks(dependents.run(job), dependents.task_runs), now, indent=2)
    if is_terminal(job):
        finished = (status_of(job).get("phaseTimes") or {}).get("finished")
        ago = f"{since(finished, now)} ago" if finished else ""
        lines.append(Text.assemble((f"{phase_of(job):<10} ", phase_style(phase_of(job))), ago))
    return lines


def _attempts(job: Obj, now: datetime, width: int | None) -> list[Text]:
    attempts = status_of(job).get("attempts") or ()
    rows = [
        (
            str(a.get("number")),
            str(a.get("cluster") or "-"),
            str(a.get("outcome") or "under way"),
            between(a.get("startedAt"), a.get("finishedAt"), now),
            one_line(a.get("message")),
        )
        for a in attempts
    ]
    header = ("NUMBER", "CLUSTER", "OUTCOME", "TOOK", "MESSAGE")
    return table(header, rows, width=width and width - 2) if rows else []


def _children(dependents: Children, now: datetime, width: int | None) -> list[Text]:
    rows = [("Job", job, _job_state(job)) for job in dependents.resolve_jobs]
    rows += [("Workload", workload, workload_state(workload)) for workload in dependents.workloads]
    rows += [("PipelineRun", run, _run_state(run)) for run in dependents.runs]
    rows += [("Pod", pod, str(status_of(pod).get("phase") or "-").lower()) for pod in dependents.pods]
    cells = [(kind, name_of(obj), since(created(obj), now), state) for kind, obj, state in rows]
    return table(("KIND", "NAME", "AGE", "STATE"), cells, width=width and width - 2) if cells else []


def _job_state(job: Obj) -> str:
    if is_true(job, "Complete"):
        return "complete"
    if is_true(job, "Failed"):
        return "failed"
    return "running"


def _run_state(run: Obj) -> str:
    verdict = condition(run, "Succeeded") or {}
    return f"{verdict.get('reason') or 'new'}: {one_line(verdict.get('message'))}".removesuffix(": ").lower()


def next_steps(job: Obj) -> list[Text]:
    """Returns the commands that are useful in the current phase."""
    name = name_of(job)
    stop = (f"fournos stop {name}", "end it")
    logs = (f"fournos logs {name}", "what its tasks printed")
    delete = (f"fournos delete {name}", "remove it and all that was made for it")
    match phase_of(job):
        case "Resolving":
            steps = [(f"fournos logs -f {name}", "what the resolver prints"), stop]
        case "Running":
            steps = [
                (f"fournos watch {name}", "follow it to its end"),
                (f"fournos logs -f {name}", "what its tasks print"),
                stop,
            ]
        case "Stopping":
            steps = [(f"fournos stop --now {name}", "do not wait for its finally tasks")]
        case "Failed":
            steps = [logs, (f"fournos explain {name}", "what went wrong"), delete]
        case _ if is_terminal(job):
            steps = [logs, delete]
        case _:
            steps = [(f"fournos explain {name}", "why it waits, and what to do"), stop]
    return steps_table(steps)
