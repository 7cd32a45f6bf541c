"""`make release`: everything that an installation starts from, in dist/fournos-VERSION.

Wheel, sdist, chart, install files, bills of materials and the files that they need are reproducible: the same
bytes for the same commit.  The images are built from that commit and the current packages of Debian.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from dev import release_chart
from dev.go_tools import COSIGN, ensure
from dev.image import ROOT
from dev.release_images import BASES, AbsentError, recipe
from dev.release_install import SYSTEMS, Document, System, missing_namespaces, of_all, of_system, write
from dev.release_sbom import images_sbom, sbom
from dev.release_signatures import PUBLIC_KEY, Signer, statement
from devcluster import DevclusterError, manifests, system
from devcluster.existing import kubectl_program
from devcluster.progress import Progress
from devcluster.shell import run

IMAGE = "quay.io/rh_perfscale/fournos"
SUMMARY = "Benchmark jobs in a fair queue, on the right cluster, with a history"
"""What catalogs say of the product."""
CHART = Path("charts/fournos")
COPIED = {"config/kueue-config.yaml": "kueue-config.yaml", "samples/first-job.yaml": "first-job.yaml"}
SUMS = "SHA256SUMS"
NOTES = "RELEASE.txt"


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


# --- reproducible artifacts: the same bytes each time -------------------------------------------------


def artifacts(source: Source, out: Path) -> None:
    """Writes all artifacts except images, notes and checksums."""
    out.mkdir(parents=True, exist_ok=True)
    packages(source, out)
    installs(source, out)
    lock = (source.tree / "requirements-runtime.lock").read_text(encoding="utf-8")
    licences = {
        found.metadata["Name"].lower(): found.metadata["License-Expression"] or ""
        for found in distributions()
    }
    text = sbom(lock, name="fournos", version=source.version, made=source.made, licences=licences)
    (out / f"fournos-{source.version}.cdx.json").write_text(text, encoding="utf-8")
    chart(source, out)
    for path, name in COPIED.items():
        shutil.copyfile(source.tree / path, out / name)
    script = out / "build-image-public-base.sh"
    script.write_text(recipe(source.version, source.image), encoding="utf-8")
    script.chmod(0o755)


def packages(source: Source, out: Path) -> None:
    """Builds wheel and sdist with hatchling, which takes the file times from SOURCE_DATE_EPOCH."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(out)]
    run(words, limit=300, cwd=source.tree, env={"SOURCE_DATE_EPOCH": str(source.made)})


def chart(source: Source, out: Path) -> None:
    """Packs the Helm chart, and writes the bill of its images."""
    tree, name = source.tree / CHART, f"fournos-{source.version}"
    release_chart.pack(tree, out / f"{name}.tgz", made=source.made, repository=source.repository)
    images = release_chart.images(tree, source.repository)
    text = images_sbom(images, name="fournos-chart", version=source.version, made=source.made)
    (out / f"{name}-chart.cdx.json").write_text(text, encoding="utf-8")


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


# --- the rest ------------------------------------------------------------------------------------------


def images(source: Source, out: Path, chosen_bases: Sequence[str], progress: Progress) -> dict[str, str]:
    """Builds an archive for each chosen base.  Returns file name → reason for each archive that is absent."""
    absent = {}
    for name in BASES:
        target = out / f"fournos-{source.version}-image-{name}.tar.gz"
        try:
            if name not in chosen_bases:
                raise AbsentError("it was not asked for")
            BASES[name].make(source.tree, source.image, target, progress)
        except AbsentError as reason:
            absent[target.name] = str(reason)
    return absent


def notes(source: Source, absent: dict[str, str], signer: Signer | None) -> str:
    lines = [
        f"Fournos {source.version}. How to install it: docs/install.md in the sdist.",
        "",
        f"image      {source.image}",
        "bases      " + "; ".join(f"{name}: {base.what}" for name, base in BASES.items()),
        f"checksums  {SUMS} (sha256sum -c {SUMS})",
        f"signatures {statement(signer)}",
    ]
    for name, reason in absent.items():
        lines += ["", f"NOT IN THIS RELEASE: {name}", f"  {reason}"]
    if any("public" in name for name in absent):
        lines.append("  It is made with build-image-public-base.sh where the base can be pulled.")
    return "\n".join(lines) + "\n"


def checksums(folder: Path) -> str:
    """Returns the checksums of the files, in the format of `sha256sum`."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name != SUMS:
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def seal(folder: Path, signer: Signer | None) -> None:
    """Writes the checksums of all files and signs them; also chart and images, which travel alone."""
    if signer and signer.public_key:
        (folder / PUBLIC_KEY).write_text(signer.public_key, encoding="utf-8")
    # Before the signatures, which differ each time: the sums are the same for the same files.
    (folder / SUMS).write_text(checksums(folder), encoding="utf-8")
    if signer:
        for path in [*folder.glob("*.tgz"), *folder.glob("*-image-*.tar.gz"), folder / SUMS]:
            signer.sign(path)


def release(
    out: Path | None, repository: str, chosen_bases: Sequence[str], signer: Signer | None, progress: Progress
) -> Path:
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
        with progress.step("Making wheel, sdist, chart, install files, bills of materials", usual="20 s"):
            artifacts(source, target)
        absent = images(source, target, chosen_bases, progress)
        (target / NOTES).write_text(notes(source, absent, signer), encoding="utf-8")
    seal(target, signer)
    for name, reason in absent.items():
        print(f"NOT MADE: {name}: {reason}")
    return target


def _signer(key: str, keyless: bool, progress: Progress) -> Signer | None:
    """A key that cannot be used is reported before anything is built."""
    if not (key or keyless):
        return None
    program = ensure(COSIGN, progress)
    return Signer.by_key(program, key) if key else Signer(program)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise DevclusterError(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make release", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, help="where to (default: dist/fournos-VERSION)")
    parser.add_argument("--image", default=IMAGE, help=f"where the image will be pulled from ({IMAGE})")
    parser.add_argument(
        "--images",
        default=",".join(BASES),
        help=f"bases of the images to make, with commas; none: no image (default: {','.join(BASES)})",
    )
    parser.add_argument(
        "--sign-key",
        metavar="KEY",
        default=os.environ.get("COSIGN_KEY", ""),
        help="key of cosign to sign with, file or address (default: $COSIGN_KEY; password: $COSIGN_PASSWORD)",
    )
    parser.add_argument(
        "--sign-keyless", action="store_true", help="sign as the workflow that runs this, without a key"
    )
    options = parser.parse_args(arguments)
    if options.sign_key and options.sign_keyless:
        parser.error("--sign-keyless: a key is given by --sign-key or COSIGN_KEY")
    chosen_bases = [name for name in options.images.split(",") if name and name != "none"]
    if unknown := set(chosen_bases) - set(BASES):
        parser.error(f"--images {','.join(sorted(unknown))}: known are {', '.join(BASES)}, none")
    progress = Progress()
    try:
        signer = _signer(options.sign_key, options.sign_keyless, progress)
        print(release(options.out, options.image, chosen_bases, signer, progress))
    except DevclusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
