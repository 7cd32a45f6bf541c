"""A pytest plugin: how long files and fixtures took, on the clock and on the processor.

It prints a table of the folders and the ten dearest files and fixtures.  `build/times.json` has all of them,
each from the last run that had it; `cpu` includes processes that a test started and waited for, not clusters.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import resource
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

_PARTS = 3
"""tests/unit/systems/jobs: as deep as the table looks."""
_DEAREST = 10


@dataclass
class Cost:
    """Seconds.  `count`: tests of a file, or set-ups of a fixture."""

    count: int = 0
    setup: float = 0
    """Set-up and tear-down of tests; set-up of a fixture, without fixtures that it names."""
    call: float = 0
    cpu: float = 0

    @property
    def seconds(self) -> float:
        return self.setup + self.call

    def __iadd__(self, other: Cost) -> Cost:
        self.count += other.count
        self.setup += other.setup
        self.call += other.call
        self.cpu += other.cpu
        return self


class Meter:
    """Measures where the tests run, a worker of xdist for example: the reports carry the numbers on."""

    def __init__(self) -> None:
        self._since = _cpu()
        self._fixtures: list[tuple[str, float, float]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._since = _cpu()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        began, cpu = time.monotonic(), _cpu()
        try:
            return (yield)
        finally:
            if fixturedef.baseid:  # not of pytest itself, and no parameter
                name = f"{fixturedef.baseid}::{fixturedef.argname}"
                self._fixtures.append((name, time.monotonic() - began, _cpu() - cpu))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now = _cpu()
        report.cpu, report.fixtures = now - self._since, self._fixtures
        self._since, self._fixtures = now, []
        return report


class Times:
    """Adds up the reports, those of all workers of xdist, too."""

    def __init__(self, path: Path) -> None:
        self.files: dict[str, Cost] = {}
        self.fixtures: dict[str, Cost] = {}
        self._path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        called = report.when == "call"
        seconds = {"call" if called else "setup": report.duration}
        cost = Cost(count=int(called), cpu=getattr(report, "cpu", 0), **seconds)
        _add(self.files, report.nodeid.split("::")[0], cost)
        for name, setup, cpu in getattr(report, "fixtures", ()):
            _add(self.fixtures, name, Cost(1, setup=setup, cpu=cpu))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.files) < 2:
            return
        write(self._path, {"files": self.files, "fixtures": self.fixtures})
        folders: dict[str, Cost] = {}
        for file, cost in self.files.items():
            _add(folders, folder_of(file), cost)
        for title, rows in (
            ("time per folder", dearest(folders)),
            ("dearest files", dearest(self.files)[:_DEAREST]),
            ("dearest fixtures", dearest(self.fixtures)[:_DEAREST]),
        ):
            terminalreporter.section(title)
            terminalreporter.write_line(f"{'count':>7}{'set-up s':>10}{'tests s':>10}{'cpu s':>8}")
            for name, cost in rows:
                numbers = f"{cost.count:>7}{cost.setup:>10.1f}{cost.call:>10.1f}{cost.cpu:>8.1f}"
                terminalreporter.write_line(f"{numbers}  {name}")


def dearest(costs: Mapping[str, Cost]) -> list[tuple[str, Cost]]:
    """Returns names and costs, those with the most seconds first."""
    return sorted(costs.items(), key=lambda row: -row[1].seconds)


def write(path: Path, costs: Mapping[str, Mapping[str, Cost]]) -> None:
    """Replaces what was measured in a file; other entries stay.  Several runs may write at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        before: dict[str, dict[str, object]] = {}
        with contextlib.suppress(ValueError):  # empty, or of a run that was killed while it wrote
            before = json.loads(file.read())
        after = {
            kind: dict(sorted({**before.get(kind, {}), **_rounded(entries)}.items()))
            for kind, entries in costs.items()
        }
        file.truncate(0)
        json.dump(after, file, indent=1)


def folder_of(file: str) -> str:
    """`tests/e2e/jobs` for `tests/e2e/jobs/more/test_queue.py`; fewer parts where there are fewer."""
    return "/".join(PurePosixPath(file).parts[:-1][:_PARTS])


def _rounded(costs: Mapping[str, Cost]) -> dict[str, dict[str, float]]:
    return {
        name: {key: round(value, 2) for key, value in asdict(cost).items()} for name, cost in costs.items()
    }


def _add(costs: dict[str, Cost], name: str, cost: Cost) -> None:
    costs.setdefault(name, Cost())
    costs[name] += cost


def _cpu() -> float:
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Meter(), "times-meter")
    if not hasattr(config, "workerinput"):  # a worker of xdist reports to the process that prints
        config.pluginmanager.register(Times(config.rootpath / "build" / "times.json"), "times")
