"""A volume of a history that is taken away and given back."""

from __future__ import annotations

import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from devcluster import DevclusterError

SIZE: Final = 64 * 2**20
"""Bytes of the volume."""
_PIECE: Final = 2**20
_PAGE: Final = 4096


class Volume:
    """A small volume with SQLite's file.  It is taken away by filling it to its last byte."""

    def __init__(self) -> None:
        """Raises DevclusterError if this user may not mount."""
        self.directory = Path(tempfile.mkdtemp(prefix="fournos-volume-"))
        self.url = f"sqlite:///{self.directory / 'history.db'}"
        self._ballast = self.directory / "ballast"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.directory)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            self.directory.rmdir()
            raise DevclusterError(
                f"A volume of {SIZE >> 20} MiB cannot be mounted: {done.stderr.strip()}",
                hint="Run it as root, or leave `full` out.",
            )

    def take_away(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            for size in (_PIECE, _PAGE):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue  # no such piece fits any more

    def give_back(self) -> None:
        self._ballast.unlink()

    def damages(self) -> list[str]:
        """Returns what SQLite finds wrong with its file."""
        connection = sqlite3.connect(self.directory / "history.db")
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        finally:
            connection.close()
        return [each for each in found if each != "ok"]

    def close(self) -> None:
        subprocess.run(["umount", str(self.directory)], check=True)
        self.directory.rmdir()
