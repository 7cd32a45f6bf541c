"""fournos top: once, for scripts, and live in a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import job, workload
from tests.unit.cli.test_explain import world
from tests.unit.cli.test_queue import controlled
from tests.unit.insight.test_overview import cluster, running
from tests.waiting import LIMIT, blocking_until

ROOT = Path(__file__).parents[3]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def busy() -> Api:
    api = controlled(
        world(
            running("load", 2),
            running("nightly", 4, status={"cluster": "cluster-2"}),
            job("one", "Pending", spec={"owner": "ann"}),
            workload("one", cluster="cluster-1"),
        )
    )
    api.add(FOURNOS_CLUSTER, cluster("cluster-1", ("a100", 8)))
    for found in api.objects.values():
        for obj in found.values():
            obj["metadata"]["resourceVersion"] = "1"  # type: ignore[index]
    return api


@pytest.mark.parametrize("arguments", [("--once",), ()])
def test_once_or_in_a_pipe_it_prints_and_ends(arguments: tuple[str, ...]) -> None:
    result = Program(busy())("top", *arguments)
    assert result.exit_code == 0
    printed = result.stdout.splitlines()
    assert printed[0] == "Clusters"
    assert any(line.split()[:2] == ["bench/one", "Pending"] and "cluster-1" in line for line in printed)
    assert "\x1b" not in result.stdout


def test_json() -> None:
    found = json.loads(Program(busy())("top", "-o", "json").stdout)
    assert found["clusters"][0]["gpus"] == [{"type": "a100", "used": 2, "total": 8}]
    assert [one["name"] for one in found["running"]] == ["load", "nightly"]
    assert found["waiting"][0]["place"] == 1


def test_without_the_right_to_read_jobs_it_is_an_error() -> None:
    api = busy()
    api.fails["*", FOURNOS_JOB] = ForbiddenError("no", status=403)
    assert Program(api)("top", "--once").exit_code == 6


# --- in a terminal -----------------------------------------------------------------------------------


class Terminal:
    """A process whose terminal is ours."""

    def __init__(self, columns: int = 120, rows: int = 30) -> None:
        self.screen = ""
        self._ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(theirs)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "TERM": "xterm-256color"}
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        self.theirs = theirs

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys: str) -> None:
        self.screen = ""
        os.write(self._ours, keys.encode())

    def until(self, pattern: str) -> str:
        """Waits until what was printed since the last key matches."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, ESCAPES.sub("", self.screen))
            if not found:
                self.read()
            return found

        def message() -> str:
            return f"no {pattern!r} in:\n{ESCAPES.sub('', self.screen)[-4000:]}"

        return str(blocking_until(look, message, pause=0)[0])

    def read(self) -> None:
        """Reads what is there, or comes soon."""
        if select.select([self._ours], [], [], 0.2)[0]:
            self.screen += os.read(self._ours, 65536).decode(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)


# The first lines: a test run in the background passes on that SIGINT is ignored.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import sys
from tests.unit.cli.api import Program
from tests.unit.cli.test_top import busy
from fournos.cli.app import build
from fournos.cli.connect import World
from fournos.cli.options import Root
from tests.unit.cli.objects import NOW
from typer.main import get_command

program = Program(busy())
root = Root(World(connect=program._connect, now=lambda: NOW))
get_command(build()).main(["top"], prog_name="fournos", obj=root)
"""


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    try:
        yield made
    finally:
        made.close()


def test_keys_sort_filter_scroll_and_quit(terminal: Terminal) -> None:
    terminal.until(r"2 clusters .* by time")
    terminal.until("bench/nightly")
    terminal.send("s")
    terminal.until("by owner")
    terminal.send("r")
    terminal.until("by owner, reversed")
    terminal.send("/ann")
    terminal.until("filter: ann_")
    terminal.send("\r")
    assert "bench/load" not in terminal.until(r"(?s)Running.*?filter: ann   ")
    terminal.send("\x1b")
    terminal.until("bench/load")
    terminal.send("q")
    assert terminal.process.wait(timeout=LIMIT) == 0
    # The terminal is given back as it was: with echo, line by line, and without the alternate screen.
    assert termios.tcgetattr(terminal.theirs) == terminal.modes
    terminal.read()
    assert "\x1b[?1049l" in terminal.screen


def test_it_follows_the_size_of_the_terminal(terminal: Terminal) -> None:
    terminal.until("bench/one")
    terminal.screen = ""
    terminal.resize(60, 8)
    os.kill(terminal.process.pid, signal.SIGWINCH)
    terminal.until(r"\d+ more below")
    terminal.send("\x1b[6~")
    terminal.until("Waiting")
    terminal.send("q")
    assert terminal.process.wait(timeout=LIMIT) == 0


def test_ctrl_c_ends_it_and_gives_the_terminal_back(terminal: Terminal) -> None:
    terminal.until("bench/one")
    os.killpg(terminal.process.pid, signal.SIGINT)
    assert terminal.process.wait(timeout=LIMIT) == 130
    assert termios.tcgetattr(terminal.theirs) == terminal.modes
