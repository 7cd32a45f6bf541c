"""A pytest plugin: prints how long the tests of each folder took, set-up included."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import PurePosixPath

import pytest

_PARTS = 3
"""tests/unit/jobs: as deep as the table looks."""


class FolderTimes:
    """Seconds and numbers of tests by folder, gathered from the reports (of all workers of xdist, too)."""

    def __init__(self) -> None:
        self.setup: defaultdict[str, float] = defaultdict(float)
        self.call: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid)
        if report.when == "call":
            self.call[folder] += report.duration
            self.tests[folder] += 1
        else:
            self.setup[folder] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.tests) < 2:
            return
        terminalreporter.section("time per folder")
        terminalreporter.write_line(f"{'folder':<36}{'tests':>7}{'set-up s':>10}{'tests s':>10}")
        for folder in sorted(self.setup, key=lambda one: -(self.setup[one] + self.call[one])):
            terminalreporter.write_line(
                f"{folder:<36}{self.tests[folder]:>7}{self.setup[folder]:>10.1f}{self.call[folder]:>10.1f}"
            )


def folder_of(nodeid: str) -> str:
    """`tests/unit/jobs` for `tests/unit/jobs/test_queue.py::test_x`; fewer parts where there are fewer."""
    parts = PurePosixPath(nodeid.split("::")[0]).parts[:-1]
    return "/".join(parts[:_PARTS])


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of xdist reports to the process that prints
        config.pluginmanager.register(FolderTimes(), "folder-times")
