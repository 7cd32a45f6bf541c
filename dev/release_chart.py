"""Packs the Helm chart of a release, the same bytes for the same files.

`helm package` writes the time of the day into the archive.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster import DevclusterError

FIRST: Final = ("Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "templates")
"""Files and folders that precede all others, as in an archive of `helm package`."""
_IGNORE_FILE: Final = ".helmignore"
_HIDDEN_TEMPLATES: Final = "templates/.?*"
"""What Helm ignores without a file that says so."""


def pack(chart: Path, target: Path, *, made: int, repository: str) -> None:
    """Writes the archive of a chart.

    `made` is the time of each file, in seconds since 1970.  `repository` takes the place of the one from
    which the chart pulls the product's image.  Raises DevclusterError.
    """
    name = _read(chart / "Chart.yaml")["name"]
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=made) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for path in files(chart):
            content = (chart / path).read_bytes()
            if path == "values.yaml":
                content = _with_repository(content.decode(), repository).encode()
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), made, 0o644
            archive.addfile(entry, io.BytesIO(content))


def files(chart: Path) -> list[str]:
    """Returns the paths of the chart's files in the order of the archive.  Raises DevclusterError."""
    if (chart / _IGNORE_FILE).exists():
        raise DevclusterError(
            f"{chart / _IGNORE_FILE} is not supported", hint="Keep files that are not packed elsewhere."
        )
    paths = [str(path.relative_to(chart)) for path in chart.rglob("*") if path.is_file()]
    packed = [path for path in paths if not fnmatchcase(path, _HIDDEN_TEMPLATES)]
    return sorted(packed, key=lambda path: (_rank(path), path))


def _with_repository(values: str, repository: str) -> str:
    """Changes one line of the text: its comments explain the values."""
    line = f"repository: {yaml.safe_load(values)['image']['repository']}\n"
    assert values.count(line) == 1, line
    return values.replace(line, f"repository: {repository}\n")


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def _rank(path: str) -> int:
    top = path.partition("/")[0]
    return FIRST.index(top) if top in FIRST else len(FIRST)
