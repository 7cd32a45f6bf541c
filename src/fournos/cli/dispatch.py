"""fournos dispatch …: jobs that run on other clusters, why they wait, and whether the workers are ready."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from fournos.api.conditions import condition, is_true
from fournos.cli.command import Cli, Session, verb
from fournos.cli.dispatch_check import Line, inspect, kinds_of, problems
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.lazy import sub_app
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.cli.workers import KUEUE_NAMESPACE, DispatchCheck, checks, worker
from fournos.insight.values import created, since
from fournos.kube.errors import KubeError, NotFoundError
from fournos.kube.resource import Key, Obj, controller_of
from fournos.queueing.kind_names import BadNameError
from fournos.queueing.kinds import WORKLOAD

app = sub_app()

KueueNamespace = Annotated[
    str,
    typer.Option("--kueue-namespace", metavar="NAME", help="Namespace of Kueue and the workers' Secrets."),
]


@verb(app, "list", "ls")
async def list_dispatched(cli: Cli) -> None:
    """List the jobs of a namespace that go to workers, with where they are.

    \b
    fournos dispatch list
    fournos dispatch list -n team -o wide    with the adapter's message
    """
    async with cli.session() as session:
        known = {check.name: check for check in await checks(session)}
        workloads = (await session.api.list(WORKLOAD, namespace=session.namespace)).items
    found = [one for one in workloads if _entry(one, known)]
    if cli.output.objects(WORKLOAD, found):
        return
    if not found:
        cli.output.hint(f"No jobs for workers in namespace {session.namespace}.")
        return
    wide = cli.output.form is Format.WIDE
    header = ["JOB", "WORKER", "STATE", "ADAPTER", "AGE", *(["MESSAGE"] if wide else [])]
    rows: list[list[str | Text]] = []
    for one in found:
        entry, status = _entry(one, known), one.get("status") or {}
        row: list[str | Text] = [
            job_name(one),
            str(status.get("clusterName") or "-"),
            state_of(one, entry),
            known[entry["name"]].adapter,
            since(created(one), cli.world.now()),
        ]
        rows.append([*row, str(entry.get("message") or "")] if wide else row)
    cli.output.lines(table(header, rows, width=cli.output.width))


def _entry(workload: Obj, known: dict[str, DispatchCheck]) -> dict[str, Any]:
    """The state of the AdmissionCheck that dispatches the Workload to a worker; empty if there is none."""
    entries = (workload.get("status") or {}).get("admissionChecks") or ()
    return dict(next((one for one in entries if one["name"] in known), {}))


def job_name(workload: Obj) -> str:
    owner = controller_of(workload)
    return f"{owner['kind']}/{owner['name']}" if owner else str(workload["metadata"]["name"])


def state_of(workload: Obj, entry: Obj) -> str:
    if is_true(workload, "Finished"):
        return str((condition(workload, "Finished") or {}).get("reason") or "Finished")
    if is_true(workload, "Evicted"):
        return "Evicted"
    if not is_true(workload, "QuotaReserved"):
        return "Queued"
    return "Running" if entry.get("state") == "Ready" else str(entry.get("state") or "Pending")


@verb(app, "explain")
async def explain_dispatch(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.", show_default=False)],
    kueue_namespace: KueueNamespace = KUEUE_NAMESPACE,
) -> None:
    """Say where a job stands: on the manager, and on each worker that was asked.

    \b
    fournos dispatch explain my-run
    """
    async with cli.session() as session:
        known = {check.name: check for check in await checks(session)}
        workload = await _workload(session, name)
        entry = _entry(workload, known)
        if not entry:
            queue = workload["spec"].get("queueName")
            raise Fail(
                f"{job_name(workload)} does not go to a worker: no AdmissionCheck of its queue takes it",
                fix=f"add one to the ClusterQueue of {queue}, see docs/multikueue.md",
            )
        lines = _here(workload, entry, known[entry["name"]])
        status = workload.get("status") or {}
        asked = (*filter(None, [status.get("clusterName")]), *(status.get("nominatedClusterNames") or ()))
        for one in asked:
            lines += await _there(cli, session, str(one), workload, kueue_namespace)
    cli.output.lines(lines)


def _here(workload: Obj, entry: Obj, check: DispatchCheck) -> list[Text]:
    status = workload.get("status") or {}
    lines = [Text(f"{job_name(workload)}: {state_of(workload, entry)}", style="bold")]
    quota = condition(workload, "QuotaReserved") or {}
    facts = [
        ("Quota here", quota.get("message") or "Kueue has not looked at it yet"),
        (
            "Evicted",
            (condition(workload, "Evicted") or {}).get("message") if is_true(workload, "Evicted") else "",
        ),
        ("Check", f"{check.name} ({check.whose}): {entry.get('state')}"),
        ("It says", entry.get("message")),
        ("Worker", status.get("clusterName")),
        ("Asked", ", ".join(status.get("nominatedClusterNames") or ())),
        ("Finished", (condition(workload, "Finished") or {}).get("message")),
    ]
    if check.active.get("status") != "True":
        why = check.active.get("message") or f"nobody serves it; {check.start}"
        facts.append(("Attention", f"the check is not active: {why}"))
    return [*lines, *(Text(f"  {(name + ':').ljust(12)} {value}") for name, value in facts if value)]


async def _there(cli: Cli, session: Session, name: str, workload: Obj, namespace: str) -> list[Text]:
    """Returns the state of the Workload's copy on the worker, or why the worker cannot be read."""
    key = Key(workload["metadata"]["namespace"], workload["metadata"]["name"])
    try:
        async with worker(cli.world, session, name, namespace=namespace) as api:
            twin = await api.get(WORKLOAD, key)
    except NotFoundError:
        return [Text(f"  on {name}: it has nothing of it yet; see: fournos dispatch check")]
    except KubeError as error:
        return [Text(f"  on {name}: {error.message}; see: fournos dispatch check")]
    for type_ in ("Finished", "Evicted", "Admitted", "QuotaReserved"):
        found = condition(twin, type_) or {}
        if found.get("status") == "True" or type_ == "QuotaReserved":
            text = found.get("message") or "its Kueue has not looked at it yet: is there a LocalQueue?"
            return [Text(f"  on {name}: {type_ if found.get('status') == 'True' else 'waits'}: {text}")]
    return []


async def _workload(session: Session, name: str) -> Obj:
    found = (await session.api.list(WORKLOAD, namespace=session.namespace)).items
    for one in found:
        owner = controller_of(one)
        if name in (one["metadata"]["name"], owner["name"] if owner else ""):
            return one
    raise Fail(
        f"no queued job {name} in namespace {session.namespace}",
        fix="a job that is there needs a queue's name and its kind's controller, here on the manager",
        code=Exit.NOT_FOUND,
    )


@verb(app, "check")
async def check_dispatch(
    cli: Cli,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="KIND.VERSION.GROUP",
            help="A kind that is to be taken to workers; default: FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS.",
        ),
    ] = None,
    kueue_namespace: KueueNamespace = KUEUE_NAMESPACE,
) -> int:
    """Look whether every worker is ready: connection, versions, CRDs, namespaces, queues, rights.

    With Kueue's own adapter one missing CRD takes a worker out of service for every kind. Exit code 1 if
    anything is missing.

    \b
    fournos dispatch check --kind PipelineRun.v1.tekton.dev
    fournos dispatch check -o json
    """
    try:
        kinds = kinds_of(kind or (), os.environ.get("FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS", ""))
    except BadNameError as error:
        raise Fail(str(error)) from None
    async with cli.session() as session:
        lines = await inspect(cli, session, kinds, kueue_namespace=kueue_namespace)
    if cli.output.structured:
        cli.output.data([line.as_data() for line in lines])
    else:
        cli.output.lines(_table(lines, width=cli.output.width))
    wrong = problems(lines)
    if wrong:
        cli.output.hint(f"{wrong} of {len(lines)} are not as they must be.")
    return Exit.FAILED if wrong else Exit.OK


def _table(lines: Sequence[Line], *, width: int | None) -> list[Text]:
    rows: list[list[str | Text]] = [
        [
            line.worker,
            line.what,
            Text("ok", style="green") if line.good else Text("MISSING", style="red"),
            line.text,
        ]
        for line in lines
    ]
    return table(["WORKER", "WHAT", "RESULT", "DETAIL"], rows, width=width)
