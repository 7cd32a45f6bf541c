"""fournos results …: what benchmarks measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.options import AllClustersOption
from fournos.cli.stored import RunArgument, history_of, result_table, selected
from fournos.client.errors import NotAllowedError
from fournos.client.history import AsyncHistory
from fournos.insight.values import count

if TYPE_CHECKING:
    from fournos.history.results.read import ResultFile

app = command_group("Results: what benchmarks measured, also of jobs that are gone.")

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE…", show_default=False, help="Files of results.")
]
JobOption = Annotated[
    str, typer.Option("--job", metavar="JOB", help="Of this job; without it, of the job whose pod this is.")
]


@verb(app, "check")
def check(cli: Cli, files: FilesArgument) -> int:
    """Check files of results: every error, by its path. Exit code 1 if there is one.

    Needs no cluster.

    \b
    fournos results check results.yaml kpis.jsonl
    """
    from fournos.history.results.read import read_file

    read = {str(file): read_file(content, file.name) for file, content in _contents(files)}
    if cli.output.structured:
        cli.output.data({name: _report(file) for name, file in read.items()})
    else:
        for name, file in read.items():
            for problem in file.problems:
                cli.output.say(f"{name}: {problem}")
            for warning in file.warnings:
                cli.output.say(f"{name}: warning: {warning}")
            cli.output.say(f"{name}: {_summary(file)}")
    return Exit.FAILED if any(file.problems for file in read.values()) else Exit.OK


def _summary(file: ResultFile) -> str:
    failed = sum(not test.success for test in file.tests)
    parts = [
        count(len(file.tests), "test"),
        count(file.kpis, "KPI"),
        *([f"{failed} of the tests failed"] if failed else []),
        *([count(len(file.problems), "problem")] if file.problems else []),
    ]
    return ", ".join(parts)


def _report(file: ResultFile) -> dict[str, Any]:
    return {
        "valid": not file.problems,
        "tests": len(file.tests),
        "kpis": file.kpis,
        "problems": [problem.as_data() for problem in file.problems],
        "warnings": [warning.as_data() for warning in file.warnings],
    }


@verb(app, "push")
async def push(cli: Cli, files: FilesArgument, job: JobOption = "") -> None:
    """Store files of results. Inside a task they are those of its own job; pushing again changes nothing.

    \b
    fournos results push results.yaml                 in a task of the job
    fournos results push results.yaml --job llama-7b  from elsewhere
    """
    contents = list(_contents(files))
    async with cli.session() as session:
        history = history_of(session)
        for file, content in contents:
            received = await history.push_results(content, filename=file.name, name=job)
            counts = {
                "added": received.added,
                "replaced": received.replaced,
                "unchanged": received.unchanged,
                "refused": received.refused,
            }
            summary = (
                ", ".join(f"{number} {what}" for what, number in counts.items() if number) or "no records"
            )
            cli.output.say(f"{file}: {summary}")
            for warning in received.warnings:
                cli.output.hint(f"{file}: {warning}")


@verb(app, "list", "ls")
async def list_results(
    cli: Cli,
    job: RunArgument,
    all_clusters: AllClustersOption = False,
) -> None:
    """List the results of a job: its tests with their KPIs, also when the job is gone.

    \b
    fournos results list llama-7b
    fournos results list @last
    fournos results list llama-7b -o json
    """
    async with cli.session() as session:
        history = history_of(session, all_clusters=all_clusters)
        (name,) = await selected(cli, history, [job])
        records = await history.results(name)
        if cli.output.structured:
            cli.output.data([record.model_dump(mode="json", exclude_defaults=True) for record in records])
            return
        for problem in await _problems(history, name):
            cli.output.warn(f"not stored: {problem}")
    if not records:
        cli.output.hint(f"{job} has no results.")
        return
    cli.output.lines(result_table(records, width=cli.output.width))


async def _problems(history: AsyncHistory, job: str) -> tuple[str, ...]:
    """Returns what could not be stored; nothing without the right to read documents."""
    try:
        return await history.problems(job)
    except NotAllowedError:
        return ()


def _contents(files: list[Path]) -> list[tuple[Path, bytes]]:
    try:
        return [(file, file.read_bytes()) for file in files]
    except OSError as error:
        raise Fail(f"{error.filename}: {error.strerror}", fix="name files that can be read") from None
