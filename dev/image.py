"""Builds the images of the operator and of the mock resolver.

Buildah needs no registry; Docker or Podman pull public base images.  `python -m dev.image` builds the
operator's image with buildah and prints its tag and archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from devcluster.engine import Engine
from devcluster.imagebuild import (
    PYTHON_BASE_IMAGE,
    archive_path,
    build_image,
    compile_option,
    python_base,
    python_dependencies,
)
from devcluster.locks import file_lock
from devcluster.native import build
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.shell import UMASK

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
MOCK_RESOLVE = "docker.io/library/fournos-mock-resolve:dev"
"""The full name of `fournos-mock-resolve:dev` in the mock pipelines."""
VALIDATION = "registry.k8s.io/kubectl:v1.34.4"
"""The image of config/fournos-validation.  A cluster without a registry gets the mock resolver under this
name, which contains kubectl."""
SAMPLE = "quay.io/project-codeflare/busybox:1.36"
_LIMIT = 600.0
"""Seconds to wait for another process that makes the same image."""
_SOURCES = ("src", "config", "pyproject.toml", "requirements-runtime.lock", "Containerfile", "README.md")


@dataclass(frozen=True)
class Image:
    """A docker archive and its tag."""

    tag: str
    archive: Path


def operator_image(progress: Progress, engine: Engine | None = None) -> Image:
    """Returns the operator image of this checkout, built only if its content has changed.

    The tag is a digest of the content, so a Deployment that names it restarts exactly when the content
    changes.  With an engine the base image of the Containerfile is pulled; without one buildah uses a base of
    Debian packages.
    """
    base = None if engine else python_base(progress)
    maker = engine.program if engine else "buildah"
    name = f"operator-{maker}" if engine else "operator"
    archive, made = BUILD / f"{name}.tar", BUILD / f"{name}.tag"
    with _making(archive):
        tag = f"docker.io/local/fournos:{_digest(_SOURCES, base or maker)}"
        if archive.is_file() and made.is_file() and made.read_text() == tag:
            return Image(tag, archive)
        if engine:
            engine.build(tag, containerfile=ROOT / "Containerfile", context=ROOT, progress=progress)
            engine.save(tag, archive)
        elif base:
            _packages(progress)
            build_image(
                tag,
                containerfile=ROOT / "Containerfile",
                context=ROOT,
                progress=progress,
                arguments={"BASE": PYTHON_BASE_IMAGE, "PREBUILT": "yes"},
                bases=[base],
                target=archive,
            )
        made.write_text(tag)
    return Image(tag, archive)


def mock_resolve_image(kubectl: Path, progress: Progress) -> Image:
    """Returns the mock resolver's image, based on the archive of the kubectl image.

    The connectivity check uses it, too.
    """
    folder = ROOT / "dev" / "mock-resolve"
    archive = archive_path(f"{VALIDATION}-mock-resolve-{_digest(('dev/mock-resolve',), kubectl)}")
    with _making(archive):
        if not archive.is_file():
            untagged = archive.with_suffix(".one")
            build_image(
                MOCK_RESOLVE,
                containerfile=folder / "Containerfile",
                context=folder,
                progress=progress,
                bases=[kubectl],
                target=untagged,
            )
            retag(untagged, (MOCK_RESOLVE, VALIDATION), archive)
            untagged.unlink()
    return Image(MOCK_RESOLVE, archive)


def pulled_mock_resolve_image(engine: Engine, progress: Progress) -> Image:
    """Returns the mock resolver's image, based on public images."""
    folder = ROOT / "dev" / "mock-resolve"
    archive = archive_path(f"mock-resolve:{_digest(('dev/mock-resolve',), engine.program)}")
    with _making(archive):
        if not archive.is_file():
            containerfile = folder / "Containerfile.public"
            engine.build(MOCK_RESOLVE, containerfile=containerfile, context=folder, progress=progress)
            engine.save(MOCK_RESOLVE, archive)
    return Image(MOCK_RESOLVE, archive)


def sample_image(progress: Progress) -> Image:
    """Returns the image of samples/appwrapper.yaml: the local clusters' busybox under the sample's name."""
    archive = BUILD / "sample.tar"
    with _making(archive):
        retag(build(progress)[1]["busybox"], (SAMPLE,), archive)
    return Image(SAMPLE, archive)


def retag(source: Path, tags: Sequence[str], target: Path) -> None:
    """Copies a docker archive of one image, with other tags."""
    unfinished = target.with_suffix(".new")
    with tarfile.open(source) as old, tarfile.open(unfinished, "w") as new:
        for entry in old:
            content = old.extractfile(entry)
            if content is not None and entry.name == "manifest.json":
                (image,) = json.load(content)
                text = json.dumps([{**image, "RepoTags": list(tags)}]).encode()
                entry.size, content = len(text), io.BytesIO(text)
            new.addfile(entry, content)
    unfinished.replace(target)


def _making(target: Path) -> AbstractContextManager[None]:
    """Holds the lock of one image or folder: others are made meanwhile, for minutes on a busy machine."""
    return file_lock(target.with_suffix(".lock"), limit=_LIMIT, what=f"the making of {target}")


def dependencies(progress: Progress) -> Path:
    """Returns the directory of the image's locked dependencies, kept in the cache for all checkouts."""
    locked = ROOT / "requirements-runtime.lock"
    folder = cache_root() / f"dependencies-{hashlib.sha256(locked.read_bytes()).hexdigest()[:12]}"
    with _making(folder):
        if not folder.is_dir():
            unfinished = folder.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            python_dependencies(locked, unfinished, progress)
            unfinished.replace(folder)
    return folder


def _packages(progress: Progress) -> None:
    """Fills build/image with the dependencies and the wheel."""
    packages = dependencies(progress)
    target = BUILD / "image"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(
        packages,
        target,
        symlinks=True,
        ignore=lambda folder, _: ["bin"] if folder == str(packages) else [],
    )
    with progress.step("Installing this checkout into the image", usual="5 s"):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--no-build-isolation", *compile_option()]
        command += ["--target", str(target), str(ROOT)]
        subprocess.run(command, check=True, umask=UMASK)


def _digest(sources: Iterable[str], base: Path | str) -> str:
    """Returns a digest, 12 hex digits, of everything that an image is built from.

    A base that is an archive counts by its size and time; a base that an engine pulls, by the engine's name.
    """
    digest = hashlib.sha256()
    if isinstance(base, Path):
        status = base.stat()
        base = f"{status.st_size} {status.st_mtime_ns}"
    digest.update(base.encode())
    for source in sources:
        path = ROOT / source
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def main() -> int:
    image = operator_image(Progress())
    print(image.tag)
    print(image.archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
