"""Copies the scripts and styles of other projects into the package: `python -m dev.vendor`.

They come from npm's tarballs, whose integrity npm checks.  `vendor.json` beside them names version, license
and SHA-256 of each file; a test compares the files with it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src" / "fournos" / "web" / "static" / "vendor"
TESTS = ROOT / "tests" / "e2e" / "web" / "vendor"
"""What tests of the page load into it; it is not in the package."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package of npm and what of it is kept."""

    name: str
    version: str
    license: str
    files: tuple[str, ...]
    """Paths in the tarball, below package/."""
    license_file: str = "LICENSE"


PACKAGES = (Package("htmx.org", "4.0.1", "0BSD", ("dist/htmx.min.js",)),)
IN_TESTS = (Package("axe-core", "4.14.1", "MPL-2.0", ("axe.min.js",)),)
FOLDERS = {FOLDER: PACKAGES, TESTS: IN_TESTS}


def main() -> None:
    """Downloads the packages and writes the folders anew."""
    if shutil.which("npm") is None:
        raise SystemExit("npm is not installed; it downloads the packages. Debian: apt install npm")
    for folder, packages in FOLDERS.items():
        fetch(folder, packages)


def fetch(folder: Path, packages: tuple[Package, ...]) -> None:
    """Writes one folder, with `vendor.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for package in packages:
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(
                ["npm", "pack", "--silent", f"{package.name}@{package.version}"], cwd=directory, check=True
            )
            (tarball,) = Path(directory).glob("*.tgz")
            with tarfile.open(tarball) as archive:
                for path in (*package.files, package.license_file):
                    source = archive.extractfile(f"package/{path}")
                    if source is None:
                        raise FileNotFoundError(path)
                    name = f"{package.name}.LICENSE" if path == package.license_file else Path(path).name
                    content = source.read()
                    (folder / name).write_bytes(content)
                    files[name] = {
                        "package": package.name,
                        "version": package.version,
                        "license": package.license,
                        "sha256": hashlib.sha256(content).hexdigest(),
                    }
    (folder / "vendor.json").write_text(json.dumps(files, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
