"""Builds container images without a registry: a Python base image of Debian packages, and Containerfiles."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster import system
from devcluster.archive import wrap_layer
from devcluster.errors import DevclusterError
from devcluster.locks import file_lock
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.shell import run, stream

PYTHON_BASE_IMAGE = "docker.io/local/python-base:1"
PYTHON_BASE_VERSION = "3.11"
DEBIAN_RELEASE = "bookworm"
_PACKAGES = ("python3-minimal", "libpython3-stdlib", "ca-certificates")
_LIMIT = 1200.0


def archive_path(tag: str) -> Path:
    """The path, in the cache, of the archive of an image built here."""
    safe = re.sub(r"[^a-zA-Z0-9.-]+", "_", tag)
    return cache_root() / "images" / f"{safe}.tar"


def python_base(progress: Progress) -> Path:
    """Returns the archive of PYTHON_BASE_IMAGE: Debian with Python 3.11, without pip, made by mmdebstrap.

    The archive is kept in the cache. Raises DevclusterError.
    """
    archive = archive_path(PYTHON_BASE_IMAGE)
    recipe = hashlib.sha256(" ".join([DEBIAN_RELEASE, *_PACKAGES]).encode()).hexdigest()
    key = archive.with_suffix(".key")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(archive.with_suffix(".lock"), limit=_LIMIT, what="the making of the Python base image"):
        if archive.is_file() and key.is_file() and key.read_text() == recipe:
            return archive
        system.ensure_packages([system.IMAGE_PACKAGES], progress)
        layer = archive.with_suffix(".layer")
        title = f"Making a Debian {DEBIAN_RELEASE} image with Python {PYTHON_BASE_VERSION}"
        try:
            with progress.step(title, usual="30 s") as step:

                def show(line: str) -> None:
                    step.detail = line[-60:]

                words = debian(layer, _PACKAGES)
                stream(words, on_line=show, limit=_LIMIT, env={"TMPDIR": str(archive.parent)})
                wrap_layer(layer, archive, tag=PYTHON_BASE_IMAGE, config={"Cmd": ["python3"]})
        finally:
            layer.unlink(missing_ok=True)
        key.write_text(recipe)
    return archive


def debian(target: Path, packages: Sequence[str]) -> list[str]:
    """Returns the command that writes a minimal Debian with `packages` to the tar file `target`."""
    trim = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"]
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in trim]
    options += [
        '--aptopt=APT::Install-Recommends "false"',
        '--customize-hook=rm -rf "$1"/var/lib/apt/lists/*',
    ]
    return [
        "mmdebstrap",
        "--variant=minbase",
        "--mode=root",
        "--format=tar",
        f"--include={','.join(packages)}",
        *options,
        DEBIAN_RELEASE,
        str(target),
    ]


def compile_option() -> list[str]:
    """Returns pip's option for packages of the base image's Python, which only that version compiles."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [] if running == PYTHON_BASE_VERSION else ["--no-compile"]


def python_dependencies(requirements: Path, target: Path, progress: Progress) -> None:
    """Installs `requirements` into `target` for the base image's Python, not for the running one.

    Only wheels are installed, so nothing is compiled. Raises CommandFailedError with pip's output.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "--upgrade"]
    pip += ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON_BASE_VERSION}"]
    for platform in (
        "manylinux_2_28_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "linux_x86_64",
    ):
        pip.append(f"--platform={platform}")
    pip += compile_option()
    with progress.step(f"Installing {requirements.name} for Python {PYTHON_BASE_VERSION}", usual="20 s"):
        run([*pip, "--requirement", requirements], limit=_LIMIT)


def build_image(
    tag: str,
    *,
    containerfile: Path,
    context: Path,
    progress: Progress,
    arguments: Mapping[str, str] | None = None,
    bases: Sequence[Path] = (),
    target: Path | None = None,
) -> Path:
    """Builds a Containerfile and returns the docker archive: `target`, or a file in the cache by `tag`.

    `bases` are archives whose tags FROM may name; no image is pulled. The builder's storage exists only for
    this build. Raises DevclusterError.
    """
    if ":" not in tag.rpartition("/")[2]:
        raise DevclusterError(f"{tag!r} lacks a version", hint=f"Write {tag}:1, for instance.")
    system.ensure_packages([system.IMAGE_PACKAGES], progress)
    archive = target or archive_path(tag)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="devcluster-build-", dir=archive.parent) as scratch,
        progress.step(f"Building {tag}", usual="20 s") as step,
    ):
        buildah = [
            "buildah",
            "--storage-driver",
            "vfs",
            "--root",
            f"{scratch}/root",
            "--runroot",
            f"{scratch}/run",
        ]
        for base in bases:
            step.detail = f"reading {base.name}"
            run([*buildah, "pull", "--quiet", f"docker-archive:{base}"], limit=300)
        words: list[str | Path] = [
            *buildah,
            "build",
            "--isolation",
            "chroot",
            "--pull-never",
            "--tag",
            tag,
            "--file",
            containerfile,
        ]
        for name, value in (arguments or {}).items():
            words += ["--build-arg", f"{name}={value}"]

        def show(line: str) -> None:
            step.detail = line[-60:]

        stream([*words, context], on_line=show, limit=_LIMIT)
        unfinished = archive.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        run([*buildah, "push", "--quiet", tag, f"docker-archive:{unfinished}:{tag}"], limit=300)
        unfinished.replace(archive)
    return archive
