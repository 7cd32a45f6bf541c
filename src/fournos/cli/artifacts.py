"""fournos artifacts …: the files that runs leave behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Fail
from fournos.cli.options import AllClustersOption, ToOption
from fournos.cli.output import table
from fournos.cli.results import JobOption
from fournos.cli.stored import RunArgument, history_of, selected

app = command_group("Artifacts: the files that runs left behind.")


@verb(app, "push")
async def push(
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
        history = history_of(session)
        for file, name in files:
            with file.open("rb") as content:
                stored = await history.push_artifact(content, name, name=job)
            cli.output.say(f"{stored.path}: {stored.size} bytes")
    if not files:
        cli.output.hint("There are no files.")


@verb(app, "list", "ls")
async def list_artifacts(cli: Cli, job: RunArgument, all_clusters: AllClustersOption = False) -> None:
    """List the artifacts of a job, also when the job is gone."""
    async with cli.session() as session:
        history = history_of(session, all_clusters=all_clusters)
        (name,) = await selected(cli, history, [job])
        artifacts = await history.artifacts(name)
    if cli.output.structured:
        cli.output.data(
            [
                {"path": artifact.path, "size": artifact.size, "sha256": artifact.sha256}
                for artifact in artifacts
            ]
        )
    elif not artifacts:
        cli.output.hint(f"{job} has no artifacts.")
    else:
        rows = [(artifact.path, str(artifact.size), artifact.sha256[:12]) for artifact in artifacts]
        cli.output.lines(table(("PATH", "BYTES", "SHA256"), rows, width=cli.output.width))


@verb(app, "get")
async def get(
    cli: Cli,
    job: RunArgument,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Path of the artifact.", show_default=False)],
    file: ToOption = None,
    all_clusters: AllClustersOption = False,
) -> None:
    """Print or save an artifact of a job.

    \b
    fournos artifacts get llama-7b plots/latency.svg --to latency.svg
    """
    async with cli.session() as session:
        history = history_of(session, all_clusters=all_clusters)
        (name,) = await selected(cli, history, [job])
        pieces = history.artifact(name, path)
        if file is None:
            async for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        unfinished = file.with_name(f".{file.name}.part")
        with unfinished.open("wb") as out:
            async for piece in pieces:
                out.write(piece)
        unfinished.replace(file)
    cli.output.say(f"{file}: {file.stat().st_size} bytes")


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
