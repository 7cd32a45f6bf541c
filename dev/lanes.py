"""`make test`, `make test-setup`: run tests in lanes side by side, each in a process of its own.

A lane is NAME=PATHS, tests joined by commas; lanes must share no cluster. Its tests find its name in
FOURNOS_LANE, so that those with pods have a full cluster of their own. A lane writes its output into a
log file in build/lanes. Its progress lines appear here as they come, marked with its name;
pytest's report appears in one piece when the lane ends. All lanes run to their end, whatever the result of
the others.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from devcluster.signals import forwarding

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "lanes"
VARIABLE = "FOURNOS_LANE"
NOTHING_SELECTED = 5
"""pytest's exit code if no test matches. One lane may have none."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REPORT = re.compile(r"=+ (?!test session starts).+ =+$")
_POLL = 0.2
_REPEAT = 60.0
"""Seconds without a whole line after which the unfinished one is shown."""


@dataclass
class Lane:
    """One running command and its output, as far as it is shown."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    out: TextIO
    width: int
    started: float = field(default_factory=time.monotonic)
    code: int | None = None
    """The exit code as a shell reports it; None while the command runs."""
    seconds: float = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _read: int = 0
    _line: str = ""
    _report: list[str] = field(default_factory=list)
    _shown: float = field(default_factory=time.monotonic)

    def follow(self) -> None:
        """Shows what is new. If the command has ended, sets `code` and shows the report."""
        code = self.process.poll()  # before the log is read: nothing is written after the end
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        *lines, self._line = (self._line + self._decoder.decode(new, final=code is not None)).split("\n")
        for line in lines:
            self._take(line)
        if code is not None:
            self._end(code if code >= 0 else 128 - code)
        elif self._line and time.monotonic() - self._shown > _REPEAT:
            self._show(self._line)

    def _take(self, line: str) -> None:
        if self._report or _REPORT.match(line):
            self._report.append(line)
        else:
            self._show(line)

    def _show(self, line: str) -> None:
        self._shown = time.monotonic()
        print(f"{self.name:{self.width}} | {line}", file=self.out, flush=True)

    def _end(self, code: int) -> None:
        if self._line:
            self._take(self._line)
        self.code, self.seconds = code, time.monotonic() - self.started
        print(f"==> {self}", *self._report, sep="\n", file=self.out, flush=True)

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds), 60)
        ended = {0: "passed", NOTHING_SELECTED: "no test selected"}.get(
            self.code or 0, f"failed with exit code {self.code}"
        )
        return f"{self.name}: {ended}, {minutes} min {seconds} s, whole output in {self.log}"


def run(commands: Mapping[str, Sequence[str]], logs: Path, out: TextIO) -> int:
    """Runs the commands side by side and returns the exit code for all of them.

    SIGINT, SIGTERM and SIGHUP are sent to each command once; its clean-up is waited for, however long.
    """
    logs.mkdir(parents=True, exist_ok=True)
    width = max(map(len, commands))
    lanes: list[Lane] = []
    processes: list[subprocess.Popen[bytes]] = []
    with forwarding(processes, _FORWARDED) as received:
        for name, command in commands.items():
            log = logs / f"{name}.log"
            with log.open("wb") as file:
                # In a session of its own: on Ctrl-C a terminal would interrupt it a second time.
                process = subprocess.Popen(
                    [*command],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, VARIABLE: name},
                )
            processes.append(process)
            for number in received:
                process.send_signal(number)
            lanes.append(Lane(name, process, log, out, width))
        while running := [lane for lane in lanes if lane.code is None]:
            for lane in running:
                lane.follow()
            time.sleep(_POLL)
    print(*(f"==> {lane}" for lane in lanes), sep="\n", file=out, flush=True)
    return exit_code([lane.code or 0 for lane in lanes])


def exit_code(codes: Sequence[int]) -> int:
    """Returns the first failure; NOTHING_SELECTED only if no lane had a test."""
    if set(codes) == {NOTHING_SELECTED}:
        return NOTHING_SELECTED
    return next((code for code in codes if code not in (0, NOTHING_SELECTED)), 0)


def commands(words: Sequence[str]) -> dict[str, list[str]]:
    """Returns pytest's command for each lane before `--`, with the arguments after it."""
    lanes, arguments = [*words], []
    if "--" in words:
        lanes, arguments = lanes[: lanes.index("--")], lanes[lanes.index("--") + 1 :]
    # Unbuffered, so that each progress line is in the log at once.
    pytest = [sys.executable, "-u", "-m", "pytest"]
    named = [lane.partition("=") for lane in lanes]
    return {name: [*pytest, *paths.split(","), *arguments] for name, _, paths in named}


if __name__ == "__main__":
    sys.exit(run(commands(sys.argv[1:]), LOGS, sys.stdout))
