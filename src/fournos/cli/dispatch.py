"""fournos dispatch …: jobs that run on other clusters, why they wait, and whether the workers are ready."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.text import Text

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Exit
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.insight.dispatch import (
    DispatchCheck,
    ManagerCluster,
    asked,
    checks_by_name,
    dispatch_of,
    entry_of,
    here,
    job_name,
    state_of,
    state_there,
    worker_of,
    workload_named,
)
from fournos.insight.dispatch_check import inspect, kinds_of, problems
from fournos.insight.quota import WORKLOAD
from fournos.insight.source import KUEUE_NAMESPACE
from fournos.insight.values import Obj, created, since

app = command_group(
    "Jobs that run on other clusters: where they are, why they wait, and whether the workers are ready."
)

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
        checks = await checks_by_name(session.api)
        workloads = (await session.api.list(WORKLOAD, namespace=session.namespace)).items
    dispatched = [one for one in workloads if entry_of(one, checks)]
    if cli.output.objects(WORKLOAD, dispatched):
        return
    if not dispatched:
        cli.output.hint(f"No jobs for workers in namespace {session.namespace}.")
        return
    wide = cli.output.form is Format.WIDE
    header = ["JOB", "WORKER", "STATE", "ADAPTER", "AGE", *(["MESSAGE"] if wide else [])]
    rows: list[list[str | Text]] = []
    for workload in dispatched:
        entry = entry_of(workload, checks)
        row: list[str | Text] = [
            job_name(workload),
            worker_of(workload) or "-",
            state_of(workload, entry),
            checks[entry["name"]].adapter,
            since(created(workload), cli.world.now()),
        ]
        rows.append([*row, str(entry.get("message") or "")] if wide else row)
    cli.output.lines(table(header, rows, width=cli.output.width))


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
        known = await checks_by_name(session.api)
        workload = await workload_named(session.api, session.namespace, name)
        lines = _here(workload, *dispatch_of(workload, known))
        manager = ManagerCluster(session.api, cli.world.dial, cli.world.now, kueue_namespace)
        for one in asked(workload):
            lines.append(Text(f"  on {one}: {await state_there(manager, one, workload)}"))
    cli.output.lines(lines)


def _here(workload: Obj, entry: Obj, check: DispatchCheck) -> list[Text]:
    lines = [Text(f"{job_name(workload)}: {state_of(workload, entry)}", style="bold")]
    facts = here(workload, entry, check)
    return [*lines, *(Text(f"  {(name + ':').ljust(12)} {value}") for name, value in facts)]


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
    kinds = kinds_of(kind or (), os.environ.get("FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS", ""))
    async with cli.session() as session:
        manager = ManagerCluster(session.api, cli.world.dial, cli.world.now, kueue_namespace)
        lines = await inspect(manager, kinds)
    rows = [
        (
            line.worker,
            line.what,
            Text("ok", style="green") if line.good else Text("MISSING", style="red"),
            line.text,
        )
        for line in lines
    ]
    cli.output.answer([line.as_data() for line in lines], ("WORKER", "WHAT", "RESULT", "DETAIL"), rows)
    wrong = problems(lines)
    if wrong:
        cli.output.hint(f"{wrong} of {len(lines)} checks failed.")
    return Exit.FAILED if wrong else Exit.OK
