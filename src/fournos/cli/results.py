"""fournos results … and fournos artifacts …: what benchmarks measured, and the files that they left."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import bare_name
from fournos.cli.options import ToOption
from fournos.cli.stored import RunArgument, history_of_run, result_table
from fournos.client.errors import NotAllowedError
from fournos.client.history import AsyncHistory
from fournos.engine.api.values import escaped
from fournos.insight.values import count

if TYPE_CHECKING:
    from fournos.history.results.read import ResultFile


app = command_group("Results: what benchmarks measured, also of jobs that are gone.")

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE…", show_default=False, help="Files of results.")
]
JobOption = Annotated[
    str,
    typer.Option(
        "--job",
        metavar="JOB",
        callback=bare_name,
        help="Of this job; without it, of the job whose pod this is.",
    ),
]


@verb(app, "push")
async def push(
    cli: Cli,
    files: FilesArgument,
    job: JobOption = "",
    check: Annotated[
        bool, typer.Option("--check", help="Only check them, without a cluster; exit code 1 for an error.")
    ] = False,
) -> int:
    """Store files of results. Inside a task they are those of its own job; pushing again changes nothing.

    \b
    fournos results push results.yaml                 in a task of the job
    fournos results push results.yaml --job llama-7b  from elsewhere
    fournos results push --check results.yaml         every error, by its path
    """
    contents = list(_contents(files))
    if check:
        return _check(cli, contents)
    async with cli.session() as session:
        history = session.history
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
    return Exit.OK


def _check(cli: Cli, contents: Sequence[tuple[Path, bytes]]) -> int:
    from fournos.history.results.read import read_file

    read = {str(file): read_file(content, file.name) for file, content in contents}
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


@verb(app, "list", "ls")
async def list_results(
    cli: Cli,
    job: RunArgument,
) -> None:
    """List the results of a job: its tests with their KPIs, also when the job is gone.

    \b
    fournos results list llama-7b
    fournos results list @last
    fournos results list llama-7b -o json
    """
    async with history_of_run(cli, job) as (history, name):
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


artifacts_app = command_group("Artifacts: the files that runs left behind.")


@verb(artifacts_app, "push")
async def push_artifacts(
    cli: Cli,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", help="Files and directories.", show_default=False)
    ],
    job: JobOption = "",
) -> None:
    """Store files. Inside a task they are those of its own job; what is stored already is not sent again.

    A directory is stored with the paths below it; links that lead out of it are left out.

    \b
    fournos artifacts push $(workspaces.artifacts.path)   in a task of the job
    fournos artifacts push plots --job llama-7b           from elsewhere
    """
    files = [one for path in paths for one in _files(path)]
    async with cli.session() as session:
        history = session.history
        for file, name in files:
            with file.open("rb") as content:
                stored = await history.push_artifact(content, name, name=job)
            cli.output.say(f"{stored.path}: {stored.size} bytes")
    if not files:
        cli.output.hint("There are no files.")


@verb(artifacts_app, "list", "ls")
async def list_artifacts(cli: Cli, job: RunArgument) -> None:
    """List the artifacts of a job, also when the job is gone."""
    async with history_of_run(cli, job) as (history, name):
        artifacts = await history.artifacts(name)
    data = [
        {"path": artifact.path, "size": artifact.size, "sha256": artifact.sha256} for artifact in artifacts
    ]
    rows = [(artifact.path, str(artifact.size), artifact.sha256[:12]) for artifact in artifacts]
    cli.output.answer(data, ("PATH", "BYTES", "SHA256"), rows, nothing=f"{job} has no artifacts.")


@verb(artifacts_app, "get")
async def get_artifact(
    cli: Cli,
    job: RunArgument,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Path of the artifact.", show_default=False)],
    file: ToOption = None,
) -> None:
    """Print or save an artifact of a job.

    \b
    fournos artifacts get llama-7b plots/latency.svg --to latency.svg
    """
    async with history_of_run(cli, job) as (history, name):
        pieces = history.artifact(name, path)
        if file is None:
            async for piece in _inert(pieces) if sys.stdout.isatty() else pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        unfinished = file.with_name(f".{file.name}.part")
        with unfinished.open("wb") as out:
            async for piece in pieces:
                out.write(piece)
        unfinished.replace(file)
    cli.output.say(f"{file}: {file.stat().st_size} bytes")


async def _inert(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the text without what a terminal obeys: any task may have made it."""
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    async for piece in pieces:
        yield escaped(decoder.decode(piece)).encode()


def _files(path: Path) -> list[tuple[Path, str]]:
    """Returns the files at a path, each with its name among the artifacts."""
    if path.is_file():
        return [(path, path.name)]
    if not path.is_dir():
        raise Fail(f"{path} is neither a file nor a directory", fix="name what is to be stored")
    root = path.resolve()
    return [
        (file, file.relative_to(path).as_posix())
        for folder, _, names in sorted(os.walk(path))
        for name in sorted(names)
        if (file := Path(folder) / name).is_file() and file.resolve().is_relative_to(root)
    ]
