"""The image of a release as an archive, for each base."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.image import operator_image, retag
from devcluster.errors import CommandFailedError
from devcluster.progress import Progress
from devcluster.shell import run

PUBLIC_BASE = "docker.io/library/python:3.11-slim"
"""As the Containerfile names it."""
_BUILD_LIMIT = 1200.0


class AbsentError(Exception):
    """Why an image cannot be made here."""


@dataclass(frozen=True)
class Base:
    what: str
    make: Callable[[Path, str, Path, Progress], None]
    """Tree, tag, archive.  Raises AbsentError, DevclusterError."""


def _debian(_tree: Path, tag: str, target: Path, progress: Progress) -> None:
    """From Debian's packages by mmdebstrap.  It is made of the checkout, which is that of the tree."""
    image = operator_image(progress)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        named = Path(scratch) / "image.tar"
        retag(image.archive, (tag,), named)
        _compress(named, target)


@dataclass(frozen=True)
class _Builder:
    """A program that can pull the base: what builds a tree, and what saves the image as an archive."""

    build: tuple[str, ...]
    save: tuple[str, ...]


_BUILDERS: Mapping[str, _Builder] = {
    "podman": _Builder(
        ("podman", "build", "--tag", "{tag}", "."), ("podman", "save", "--output", "{archive}", "{tag}")
    ),
    "docker": _Builder(
        ("docker", "build", "--tag", "{tag}", "--file", "Containerfile", "."),
        ("docker", "save", "--output", "{archive}", "{tag}"),
    ),
    "buildah": _Builder(
        ("buildah", "build", "--isolation", "chroot", "--tag", "{tag}", "."),
        ("buildah", "push", "{tag}", "docker-archive:{archive}:{tag}"),
    ),
}


def _public(tree: Path, tag: str, target: Path, progress: Progress) -> None:
    found = [name for name in _BUILDERS if shutil.which(name)]
    if not found:
        raise AbsentError(f"none of {', '.join(_BUILDERS)} is installed, which could pull {PUBLIC_BASE}")
    reasons = []
    for name in found:
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            archive = Path(scratch) / "image.tar"
            try:
                _build(name, tree, tag, archive, progress)
            except CommandFailedError as error:
                last = (error.evidence.strip().splitlines() or [error.message])[-1].strip()
                reasons.append(f"{name}: {last[:300]}")
                continue
            _compress(archive, target)
            return
    raise AbsentError(f"it could not be built on {PUBLIC_BASE} here; {'; '.join(reasons)}")


def _build(name: str, tree: Path, tag: str, archive: Path, progress: Progress) -> None:
    with progress.step(f"Building the image on {PUBLIC_BASE} with {name}", usual="60 s"):
        for words in (_BUILDERS[name].build, _BUILDERS[name].save):
            filled = [word.format(tag=tag, archive=archive) for word in words]
            run(filled, limit=_BUILD_LIMIT, cwd=tree)


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
    """The shell script that makes the image on the public base, from the sdist beside it."""
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
