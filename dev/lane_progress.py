"""How far a lane of tests is: read from pytest's progress lines, compared with the lane's last run."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path

_FILE = re.compile(r"(\S+\.py) ")
_PERCENT = re.compile(r"\[ *(\d+)%\]$")


class LaneProgress:
    """Measures the files of a run. `record` keeps the seconds of each for the next one."""

    def __init__(self, record: Path, now: float) -> None:
        self.percent = 0
        """Of the number of tests, as pytest counts them."""
        self._record = record
        self._before: dict[str, float] = {}
        with contextlib.suppress(OSError, ValueError):  # the first run, or one that was interrupted
            self._before = json.loads(record.read_text())
        self._seconds: dict[str, float] = {}
        self._file = ""
        self._since = now

    def see(self, line: str, now: float) -> None:
        """Takes a progress line, finished or not. A file's first line begins with its name."""
        named = _FILE.match(line)
        if named and named[1] != self._file:
            self._close_file(now)
            self._file = named[1]
        if counted := _PERCENT.search(line):
            self.percent = int(counted[1])

    def left(self, now: float) -> float | None:
        """Returns the seconds that the rest took in the last run; None if there was none."""
        if not self._before:
            return None
        rest = sum(
            seconds
            for file, seconds in self._before.items()
            if file != self._file and file not in self._seconds
        )
        return rest + max(0.0, self._before.get(self._file, 0.0) - (now - self._since))

    def describe(self, now: float) -> str:
        left = self.left(now)
        rest = "" if left is None else f", about {max(1, math.ceil(left / 60))} min left"
        return f"{self.percent} % of the tests{rest}"

    def end(self, now: float, *, whole: bool) -> None:
        """Writes the record of a run that was not interrupted."""
        self._close_file(now)
        if whole and self._seconds:
            self._record.write_text(json.dumps(self._seconds, indent=1))

    def _close_file(self, now: float) -> None:
        if self._file:
            self._seconds[self._file] = round(self._seconds.get(self._file, 0.0) + now - self._since, 1)
        self._file, self._since = "", now
