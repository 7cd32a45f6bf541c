"""The commands `devcluster image …`: build container images without an image registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devcluster import imagebuild
from devcluster.errors import DevclusterError
from devcluster.progress import Progress

app = typer.Typer(
    help="Make container images without an image registry. Each command prints the path of a docker archive, "
    "which `devcluster load` takes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def archive_of(image: str) -> Path:
    """Returns the archive of an image that `image build` made. Raises DevclusterError if there is none."""
    archive = imagebuild.archive_path(image)
    if not archive.is_file():
        raise DevclusterError(
            f"{image} is neither a file nor an image built here",
            hint="Build it: python -m devcluster image build --name … --containerfile … --context …",
        )
    return archive


@app.command(name="python-base")
def python_base(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make it anew, with Debian's newest packages.")
    ] = False,
) -> None:
    """Make the Python base image (Debian with Python 3.11, tag docker.io/local/python-base:1)."""
    typer.echo(imagebuild.python_base(Progress(), rebuild=rebuild))


@app.command(name="python-deps")
def python_deps(
    requirements: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A requirements file.")],
    target: Annotated[Path, typer.Argument(help="The directory to install into, inside the build context.")],
) -> None:
    """Install dependencies for the base image's Python into a directory that a Containerfile copies."""
    imagebuild.python_dependencies(requirements, target, Progress())
    typer.echo(target)


@app.command()
def build(
    name: Annotated[str, typer.Option(help="The image's name and version: docker.io/local/fournos:dev.")],
    containerfile: Annotated[Path, typer.Option(exists=True, dir_okay=False)] = Path("Containerfile"),
    context: Annotated[Path, typer.Option(exists=True, file_okay=False)] = Path(),
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, repeatable.")] = None,
    base: Annotated[
        list[Path] | None, typer.Option(help="A docker archive to start FROM by its tag, repeatable.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write the archive (default: the cache).")
    ] = None,
) -> None:
    """Build a Containerfile.

    The Python base image is at hand: pass it as --build-arg BASE=docker.io/local/python-base:1.
    """
    progress = Progress()
    arguments: dict[str, str] = {}
    for each in build_arg or []:
        key, separator, value = each.partition("=")
        if not separator:
            raise DevclusterError(f"--build-arg {each}: write NAME=VALUE")
        arguments[key] = value
    bases = list(base or [])
    if imagebuild.PYTHON_BASE_IMAGE in [*arguments.values(), *containerfile.read_text().split()]:
        bases.append(imagebuild.python_base(progress))
    archive = imagebuild.build_image(
        name,
        containerfile=containerfile,
        context=context,
        progress=progress,
        arguments=arguments,
        bases=bases,
        target=output,
    )
    typer.echo(archive)
