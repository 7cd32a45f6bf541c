"""The operator's image, and the mock resolver's, built without an image registry.

`python -m dev.image` builds the operator's and prints its tag and archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devcluster.imagebuild import PYTHON_BASE_IMAGE, build_image, python_base, python_dependencies
from devcluster.locks import file_lock
from devcluster.native import build
from devcluster.progress import Progress

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
MOCK_RESOLVE = "docker.io/library/fournos-mock-resolve:dev"
"""What the mock pipelines call `fournos-mock-resolve:dev`."""
SAMPLE = "quay.io/project-codeflare/busybox:1.36"
_SOURCES = ("src", "config", "pyproject.toml", "requirements-runtime.lock", "Containerfile", "README.md")


@dataclass(frozen=True)
class Image:
    """A docker archive and the tag in it."""

    tag: str
    archive: Path


def operator_image(progress: Progress) -> Image:
    """The image of this checkout.  Built only when its content changed: the tag is made of the content,
    so a Deployment that names it restarts exactly when it must.
    """
    base = python_base(progress)
    BUILD.mkdir(exist_ok=True)
    with file_lock(BUILD / ".lock", limit=600, what="the making of the operator's image"):
        tag = f"docker.io/local/fournos:{_digest(_SOURCES, base)}"
        archive, made = BUILD / "operator.tar", BUILD / "operator.tag"
        if archive.is_file() and made.is_file() and made.read_text() == tag:
            return Image(tag, archive)
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
    """The mock resolver's image, on the archive of the kubectl image."""
    BUILD.mkdir(exist_ok=True)
    with file_lock(BUILD / ".lock", limit=600, what="the making of the mock resolver's image"):
        archive, made = BUILD / "mock-resolve.tar", BUILD / "mock-resolve.key"
        key = _digest(("dev/mock-resolve",), kubectl)
        if not (archive.is_file() and made.is_file() and made.read_text() == key):
            folder = ROOT / "dev" / "mock-resolve"
            build_image(
                MOCK_RESOLVE,
                containerfile=folder / "Containerfile",
                context=folder,
                progress=progress,
                bases=[kubectl],
                target=archive,
            )
            made.write_text(key)
    return Image(MOCK_RESOLVE, archive)


def sample_image(progress: Progress) -> Image:
    """What samples/appwrapper.yaml runs: the clusters' own busybox under the name that it has there."""
    BUILD.mkdir(exist_ok=True)
    archive = BUILD / "sample.tar"
    with file_lock(BUILD / ".lock", limit=600, what="the making of the sample's image"):
        _retag(build(progress)[1]["busybox"], SAMPLE, archive)
    return Image(SAMPLE, archive)


def _retag(source: Path, tag: str, target: Path) -> None:
    """A copy of a docker archive of one image, under another name."""
    unfinished = target.with_suffix(".new")
    with tarfile.open(source) as old, tarfile.open(unfinished, "w") as new:
        for entry in old:
            content = old.extractfile(entry)
            if content is not None and entry.name == "manifest.json":
                (image,) = json.load(content)
                text = json.dumps([{**image, "RepoTags": [tag]}]).encode()
                entry.size, content = len(text), io.BytesIO(text)
            new.addfile(entry, content)
    unfinished.replace(target)


def _packages(progress: Progress) -> None:
    """build/image: the locked dependencies (kept until the lock changes) and this checkout's wheel."""
    kept, lock = BUILD / "dependencies", ROOT / "requirements-runtime.lock"
    stamp = BUILD / "dependencies.key"
    key = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not (kept.is_dir() and stamp.is_file() and stamp.read_text() == key):
        shutil.rmtree(kept, ignore_errors=True)
        python_dependencies(lock, kept, progress)
        stamp.write_text(key)
    target = BUILD / "image"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(
        kept, target, symlinks=True, ignore=lambda folder, found: ["bin"] if folder == str(kept) else []
    )
    with progress.step("Installing this checkout into the image", usual="5 s"):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--no-build-isolation", "--target", str(target), str(ROOT)]
        subprocess.run(command, check=True)


def _digest(sources: Iterable[str], base: Path) -> str:
    """Of everything that an image is made of; 12 hex digits.  The base counts by its size and time."""
    digest = hashlib.sha256()
    status = base.stat()
    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
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
