"""`make release`: everything that an installation starts from, in dist/fournos-VERSION.

Wheel, sdist, chart and install files are reproducible: the same bytes for the same commit.
`make docker-push` pushes the image; the workflow `release` signs what this makes.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev import release_chart
from dev.image import ROOT
from dev.release_install import SYSTEMS, Document, System, missing_namespaces, of_all, of_system, write
from devcluster import DevclusterError, manifests, system
from devcluster.existing import kubectl_program
from devcluster.progress import Progress
from devcluster.shell import run

IMAGE = "quay.io/rh_perfscale/fournos"
CHART = Path("charts/fournos")
COPIED = {"config/kueue-config.yaml": "kueue-config.yaml", "samples/first-job.yaml": "first-job.yaml"}
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Source:
    """A source tree to release."""

    tree: Path
    made: int
    """The commit's time in seconds since 1970, used as the time of each file in an archive."""
    repository: str = IMAGE
    """The repository from which the image is pulled."""

    @property
    def version(self) -> str:
        return str(self._project["version"])

    @property
    def url(self) -> str:
        """Of the repository of the sources."""
        return str(self._project["urls"]["Repository"])

    @property
    def _project(self) -> dict[str, Any]:
        project: dict[str, Any] = tomllib.loads((self.tree / "pyproject.toml").read_text("utf-8"))["project"]
        return project

    @property
    def image(self) -> str:
        return f"{self.repository}:{self.version}"


def artifacts(source: Source, out: Path) -> None:
    """Writes all artifacts and their checksums."""
    out.mkdir(parents=True, exist_ok=True)
    packages(source, out)
    installs(source, out)
    package = out / f"fournos-{source.version}.tgz"
    release_chart.pack(source.tree / CHART, package, made=source.made, repository=source.repository)
    for path, name in COPIED.items():
        shutil.copyfile(source.tree / path, out / name)
    (out / SUMS).write_text(checksums(out), encoding="utf-8")


def packages(source: Source, out: Path) -> None:
    """Builds wheel and sdist with hatchling, which takes the file times from SOURCE_DATE_EPOCH."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(out)]
    run(words, limit=300, cwd=source.tree, env={"SOURCE_DATE_EPOCH": str(source.made)})


def installs(source: Source, out: Path) -> None:
    """Writes install-SYSTEM.yaml for each system, and install.yaml for all of them."""
    objects = by_system(source)
    for each in SYSTEMS:
        _install(out / f"install-{each.name}.yaml", objects[each.name], f"{each.what}, {source.version}")
    _install(out / "install.yaml", of_all(objects), f"All of Fournos, {source.version}")


def by_system(source: Source) -> dict[str, list[Document]]:
    """Returns name of a system → its objects."""
    return {each.name: of_system(each, documents(source.tree, each), source.image) for each in SYSTEMS}


def documents(tree: Path, system: System) -> list[Document]:
    if system.kustomization:
        words = [*kubectl_program(), "kustomize", str(tree / system.kustomization)]
        texts = [run(words, limit=120).stdout]
    else:
        texts = [(tree / name).read_text(encoding="utf-8") for name in system.files]
    return [found for text in texts for found in manifests.parse(text) if found]


def _install(path: Path, objects: Sequence[Document], title: str) -> None:
    if missing := missing_namespaces(objects):
        raise DevclusterError(
            f"{path.name} uses namespaces that it does not make: {', '.join(sorted(missing))}"
        )
    path.write_text(write(objects, title=f"{title}."), encoding="utf-8")


def checksums(folder: Path) -> str:
    """Returns the checksums of the files, in the format of `sha256sum`."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name != SUMS:
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def release(out: Path | None, repository: str, progress: Progress) -> Path:
    """Makes the release of the checked-out commit and returns its directory.  Raises DevclusterError."""
    system.ensure_packages([system.RELEASE_PACKAGES], progress)
    if _git("status", "--porcelain").strip():
        raise DevclusterError(
            "The checkout has changes that are not committed: a release is of a commit",
            evidence=_git("status", "--short"),
            hint="Commit or remove them.",
        )
    with tempfile.TemporaryDirectory(prefix="fournos-release-") as scratch:
        archive, tree = Path(scratch) / "tree.tar", Path(scratch) / "tree"
        _git("archive", "--format=tar", f"--output={archive}", "HEAD")
        with tarfile.open(archive) as tarball:
            tarball.extractall(tree, filter="data")
        source = Source(tree, int(_git("log", "-1", "--format=%ct")), repository)
        target = out or ROOT / "dist" / f"fournos-{source.version}"
        shutil.rmtree(target, ignore_errors=True)
        with progress.step("Making wheel, sdist, chart and install files", usual="20 s"):
            artifacts(source, target)
    return target


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise DevclusterError(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make release", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, help="where to (default: dist/fournos-VERSION)")
    parser.add_argument("--image", default=IMAGE, help=f"where the image will be pulled from ({IMAGE})")
    options = parser.parse_args(arguments)
    try:
        print(release(options.out, options.image, Progress()))
    except DevclusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
