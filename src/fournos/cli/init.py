"""fournos init benchmark: the files of a new benchmark, to start from."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Fail

app = command_group("Write files to start from.")

_PLACEHOLDER: Final = "BENCHMARK"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
"""A DNS label with room for what Kubernetes adds to generated names."""


@verb(app, "benchmark")
def benchmark(
    cli: Cli,
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="Of the Pipeline and its runs.")
    ],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIRECTORY", help="Where; default: a directory of that name."),
    ] = None,
) -> None:
    """Write a benchmark to start from: a Pipeline that measures something, a job, and a gate for CI.

    Needs no cluster. Nothing that is there is overwritten.

    \b
    fournos init benchmark compress && kubectl apply -f compress/pipeline.yaml
    """
    if not _NAME.fullmatch(name):
        raise Fail(f"{name!r} is not a name", fix="write lower-case letters, digits and -, at most 52")
    folder = to or Path(name)
    written = {
        folder / source.name: source.read_text(encoding="utf-8").replace(_PLACEHOLDER, name)
        for source in files("fournos.cli").joinpath("starter").iterdir()
    }
    for path in written:
        if path.exists():
            raise Fail(f"{path} is there already", fix="name another directory: --to DIRECTORY")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in sorted(written.items()):
        path.write_text(text, encoding="utf-8")
        if path.suffix == ".sh":
            path.chmod(0o755)
        cli.output.say(str(path))
    cli.output.hint(f"Read {folder / 'README.md'}; then: kubectl apply -f {folder / 'pipeline.yaml'}")
