"""Packs the Helm chart of a release, the same bytes for the same files.

`helm package` writes the time of the day into the archive.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import yaml


def pack(chart: Path, target: Path, *, made: int, repository: str) -> None:
    """Writes the archive of a chart.

    `made` is the time of each file, in seconds since 1970.  `repository` takes the place of the one from
    which the chart pulls the product's image.
    """
    name = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))["name"]
    with (
        target.open("wb") as packed,
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=made) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for file in sorted(each for each in chart.rglob("*") if each.is_file()):
            path, content = str(file.relative_to(chart)), file.read_bytes()
            if path == "values.yaml":
                content = _with_repository(content.decode(), repository).encode()
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), made, 0o644
            archive.addfile(entry, io.BytesIO(content))


def _with_repository(values: str, repository: str) -> str:
    """Changes one line of the text: its comments explain the values."""
    line = f"repository: {yaml.safe_load(values)['image']['repository']}\n"
    assert values.count(line) == 1, line
    return values.replace(line, f"repository: {repository}\n")
