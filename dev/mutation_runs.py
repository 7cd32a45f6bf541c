"""Runs the tests against each change that mutmut has made: one collection, then a fork for each change.

mutmut's own runner starts pytest for each change and gives the tests no order.  This one collects once, notes
which functions each test calls and how long it takes, and runs the fastest tests of a change first.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(eq=False)  # pytest keeps plugins in sets
class Runs:
    """A pytest plugin: replaces the loop over the tests by one over the changes."""

    changes: Sequence[str]
    workers: int
    budget: float
    """The processor time in seconds that tests may take per change; the slowest ones are left out."""
    survived: list[str] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    """Changes of functions that no test calls."""
    _is_child: bool = False
    _cost: dict[Any, float] = field(default_factory=dict)
    _tests: defaultdict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is None or isinstance(call.excinfo.value, pytest.skip.Exception):
            return
        if not self._is_child:
            raise pytest.UsageError(f"{item.nodeid} fails without a change: {call.excinfo.value}")
        os._exit(1)  # a report would take longer than the test

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._measure(session.items)
        gc.collect()
        gc.freeze()  # else the collector of each fork copies all that is imported
        running: dict[int, str] = {}
        for number, change in enumerate(self.changes):
            tests = self._tests_of(change)
            if not tests:
                self.untested.append(change)
                continue
            if len(running) == self.workers:
                self._reap(running)
            running[self._start(change, tests)] = change
            if number % 100 == 0:
                print(f"{number}/{len(self.changes)}: {len(self.survived)} survived", file=sys.stderr)
        while running:
            self._reap(running)
        return True

    def _measure(self, items: Sequence[Any]) -> None:
        """Runs each test once without a change, which must pass, and notes what it calls."""
        called = importlib.import_module("mutmut.state").state()
        _activate("stats")
        for item in items:
            called._stats.clear()
            began = time.process_time()
            _run(item)
            self._cost[item] = time.process_time() - began
            for function in called._stats:
                self._tests[function].append(item)

    def _tests_of(self, change: str) -> list[Any]:
        tests = sorted(self._tests[change.rpartition("__mutmut_")[0]], key=self._cost.__getitem__)
        spent = 0.0
        chosen: list[Any] = []
        for test in tests:
            spent += self._cost[test]
            if chosen and spent > self.budget:
                break
            chosen.append(test)
        return chosen

    def _start(self, change: str, tests: Sequence[Any]) -> int:
        if child := os.fork():
            return child
        self._is_child = True
        # A change may make a test, or its end, wait for ever.  The limit is far above the budget: the machine
        # may be busy.
        with Path(os.devnull).open("w") as nothing:
            faulthandler.dump_traceback_later(10 + 10 * self.budget, exit=True, file=nothing)
            try:
                _activate(change)
                for test in tests:
                    _run(test)
                os._exit(0)
            finally:
                os._exit(1)

    def _reap(self, running: dict[int, str]) -> None:
        child, status = os.wait()
        change = running.pop(child)
        if status == 0:
            self.survived.append(change)


def _run(test: Any) -> None:
    test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)


def _activate(change: str) -> None:
    importlib.import_module("mutmut.mutation.trampoline").set_mutant_under_test(change)


def make_changes() -> list[str]:
    """Writes the changed sources to the directory `mutants` of the working directory; returns their names."""
    main = importlib.import_module("mutmut.__main__")
    _activate("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    with contextlib.redirect_stdout(io.StringIO()):
        main.copy_src_dir()
        main.copy_also_copy_files()
        main.setup_source_paths()
        main.create_mutants(1)
    found, _ = main.collect_source_file_mutation_data(mutant_names=())
    return [name for _, name, _ in found]


def run(changes: Sequence[str], tests: Sequence[str], *, workers: int, budget: float) -> Runs:
    """Runs the tests in the working directory against each change."""
    runs = Runs(changes, workers, budget)
    options = [
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        "--assert=plain",
        "--timeout=0",
    ]
    if code := pytest.main(["--rootdir=.", *options, *tests], plugins=[runs]):
        raise SystemExit(f"pytest ends with {code!r}")
    return runs
