"""Builds the image of a release as an archive, for each base."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.engine import find_engine
from dev.image import operator_image, retag
from devcluster.errors import CommandFailedError
from devcluster.progress import Progress

PUBLIC_BASE = (
    "docker.io/library/python:3.11-slim"
    "@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7"
)
"""The base image in the Containerfile."""


class AbsentError(Exception):
    """An image cannot be built on this machine; the message is the reason."""


@dataclass(frozen=True)
class Base:
    """A base of the image, and the function that builds the image on it."""

    what: str
    make: Callable[[Path, str, Path, Progress], None]
    """Called with tree, tag, archive and progress.  Raises AbsentError, DevclusterError."""


def _debian(_tree: Path, tag: str, target: Path, progress: Progress) -> None:
    """Builds on Debian packages with mmdebstrap.  It uses the checkout, which has the content of the tree."""
    image = operator_image(progress)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        named = Path(scratch) / "image.tar"
        retag(image.archive, (tag,), named)
        _compress(named, target)


def _public(tree: Path, tag: str, target: Path, progress: Progress) -> None:
    engine = find_engine()
    if engine is None:
        raise AbsentError(
            f"{PUBLIC_BASE} has to be pulled, and neither Docker nor Podman answers here "
            "(`docker info`, `podman info`)"
        )
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        archive = Path(scratch) / "image.tar"
        try:
            engine.build(tag, containerfile=tree / "Containerfile", context=tree, progress=progress)
            engine.save(tag, archive)
        except CommandFailedError as error:
            last = (error.evidence.strip().splitlines() or [error.message])[-1].strip()
            reason = f"{engine.program} cannot build it on {PUBLIC_BASE} here: {last[:300]}"
            raise AbsentError(reason) from None
        _compress(archive, target)


def _compress(archive: Path, target: Path) -> None:
    with (
        archive.open("rb") as source,
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as compressed,
    ):
        shutil.copyfileobj(source, compressed)


BASES: Mapping[str, Base] = {
    "debian": Base("Debian's own Python, of Debian's packages alone", _debian),
    "public-base": Base(PUBLIC_BASE, _public),
}


def recipe(version: str, tag: str) -> str:
    """Returns the shell script that builds the image on the public base, from the sdist beside it."""
    return f"""#!/bin/sh
# Makes {tag} on {PUBLIC_BASE}, and its archive.
# Needs podman or docker, that image and PyPI.  BASE names another base with Python 3.11 and pip.
set -eu
cd "$(dirname "$0")"
builder=$(command -v podman || command -v docker) || {{
  echo "error: neither podman nor docker is installed" >&2
  exit 1
}}
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
tar -xzf fournos-{version}.tar.gz -C "$source" --strip-components=1
"$builder" build --build-arg "BASE=${{BASE:-{PUBLIC_BASE}}}" --tag {tag} \\
  --file "$source/Containerfile" "$source"
"$builder" save {tag} | gzip -n > fournos-{version}-image-public-base.tar.gz
"""
