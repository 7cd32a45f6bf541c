"""`make flakes`: runs tests several times, in a changing order and under load, and counts what fails.

The files of a folder stay together, because they share fixtures; the order of the folders and of the files in
each changes with every run.  One number decides about all orders: it is printed, and `--order` repeats it.
`--command` repeats any command instead.  What fails is kept, with its output and the logs of the clusters, in
build/flakes.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM

from dev.lanes import NOTHING_SELECTED
from dev.load import Load
from devcluster.checkout import records
from devcluster.signals import forwarding

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "flakes"
FOLDERS = ("tests/store", "tests/integration", "tests/e2e")
_FORWARDED = (SIGINT, SIGTERM, SIGHUP)
_CLEAN_UP = 120.0
"""Seconds from SIGINT to SIGKILL for a command that exceeded its limit."""
_POLL = 0.2


@dataclass(frozen=True)
class Batch:
    """What one process runs: test files of one folder, or a command."""

    name: str
    words: tuple[str, ...]
    junit: bool = True
    """True if pytest reports each test; otherwise the whole is one test."""


@dataclass(frozen=True)
class Run:
    """One pass over everything."""

    number: int
    load: Load
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Result:
    """How one test ended in one run."""

    test: str
    seconds: float
    failed: bool


def plan(files: Sequence[str], *, runs: int, order: int, loads: Sequence[Load]) -> list[Run]:
    """Returns the runs: each has all files, in an order that depends on `order` and the run's number alone.

    The loads take turns.
    """
    folders: dict[str, list[str]] = {}
    for file in sorted(set(files)):
        folders.setdefault(str(Path(file).parent), []).append(file)
    planned = []
    for number in range(1, runs + 1):
        chance = random.Random(f"{order}/{number}")  # noqa: S311 - an order has no secret
        names = chance.sample(sorted(folders), len(folders))
        batches = (Batch(name, tuple(chance.sample(folders[name], len(folders[name])))) for name in names)
        planned.append(Run(number, loads[(number - 1) % len(loads)], tuple(batches)))
    return planned


def repeated(command: str, *, runs: int, loads: Sequence[Load]) -> list[Run]:
    """Returns the runs of a shell command."""
    batch = Batch(command, ("sh", "-c", command), junit=False)
    return [Run(number + 1, loads[number % len(loads)], (batch,)) for number in range(runs)]


def test_files(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """Returns the test files of files and folders, relative to `root`.  Raises ValueError if one has none."""
    chosen = []
    for path in paths:
        place = root / path
        files = [place] if place.is_file() else sorted(place.rglob("test_*.py"))
        if not files:
            raise ValueError(f"{path}: no test file")
        chosen += [str(file.relative_to(root)) for file in files]
    return chosen


def parse_junit(text: str) -> list[Result]:
    """Returns the results of a JUnit report of pytest's; skipped tests are not among them.

    A test that failed in its body and again in its tear-down has two entries: they are one result.
    """
    results: dict[str, Result] = {}
    for case in ET.fromstring(text).iter("testcase"):  # noqa: S314 - the file of our own pytest
        if case.find("skipped") is not None:
            continue
        test = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        failed = case.find("failure") is not None or case.find("error") is not None
        before = results.get(test, Result(test, 0.0, False))
        seconds = before.seconds + float(case.get("time", 0))
        results[test] = Result(test, seconds, before.failed or failed)
    return list(results.values())


def results_of(batch: Batch, code: int, report: str, seconds: float) -> list[Result]:
    """Returns the results of a batch from the exit code and the report of its process.

    An exit code that no failed test explains is a failure of the batch itself.
    """
    results = parse_junit(report) if report else []
    expected = (0, NOTHING_SELECTED) if batch.junit else (0,)
    if not batch.junit or not (code in expected or any(result.failed for result in results)):
        results.append(Result(batch.name, seconds, code not in expected))
    return results


def table(results: Sequence[Result]) -> list[tuple[str, int, int, float]]:
    """Returns test, runs, failures and mean seconds for each test: most failures first, then the slowest."""
    grouped: dict[str, list[Result]] = {}
    for result in results:
        grouped.setdefault(result.test, []).append(result)
    rows = [
        (
            test,
            len(runs),
            sum(run.failed for run in runs),
            sum(run.seconds for run in runs) / len(runs),
        )
        for test, runs in grouped.items()
    ]
    return sorted(rows, key=lambda row: (-row[2], -row[3], row[0]))


def shown(rows: Iterable[tuple[str, int, int, float]]) -> str:
    """Returns the table as text."""
    lines = [f"{'runs':>5}{'failures':>10}{'mean s':>9}  test"]
    lines += [f"{runs:>5}{failures:>10}{mean:>9.1f}  {test}" for test, runs, failures, mean in rows]
    return "\n".join(lines)


class Rig:
    """Runs the plan.  `logs` is the folder for the output and the logs of what fails."""

    def __init__(self, logs: Path, *, limit: float, before: str = "", pytest: Sequence[str] = ()) -> None:
        self.results: list[Result] = []
        self._logs = logs
        self._limit = limit
        self._before = before
        self._pytest = pytest
        self._processes: list[subprocess.Popen[bytes]] = []
        self._received: list[int] = []

    def run(self, runs: Sequence[Run]) -> int:
        """Returns 0 if nothing failed, 1 if something did, 128 + n after signal n.

        Raises RuntimeError if the command that prepares a run fails.
        """
        with forwarding(self._processes, _FORWARDED) as self._received:
            for run in runs:
                with run.load.beside(self._logs):
                    for place, batch in enumerate(run.batches, start=1):
                        self._take(run, batch, self._logs / f"{run.number:02}-{place:02}")
                        if self._received:
                            return 128 + self._received[0]
        return int(any(result.failed for result in self.results))

    def _take(self, run: Run, batch: Batch, folder: Path) -> None:
        """Runs a batch; keeps its folder only if something failed."""
        folder.mkdir(parents=True)
        if self._before and self._process(("sh", "-c", self._before), folder / "before.log"):
            raise RuntimeError(f"`{self._before}` failed: {folder / 'before.log'}")
        # A short path, because sockets are made in it.
        with tempfile.TemporaryDirectory(prefix="flakes-", ignore_cleanup_errors=True) as temporary:
            results, seconds = self._run_batch(batch, folder, Path(temporary, "t"))
            if self._received:  # it was interrupted, and has neither passed nor failed
                return
            failed = [result.test for result in results if result.failed]
            if failed:
                _copy_logs(Path(temporary), folder / "tmp")
        self.results += results
        ended = f"{len(failed)} of {len(results)} failed: {folder}" if failed else f"{len(results)} passed"
        print(f"run {run.number} ({run.load}): {batch.name}: {ended}, {seconds:.0f} s", flush=True)
        if failed:
            for record in records():
                _copy_logs(record.directory / "log", folder / "clusters" / record.spec.name)
        else:
            shutil.rmtree(folder)

    def _run_batch(self, batch: Batch, folder: Path, temporary: Path) -> tuple[list[Result], float]:
        """Returns the results and the seconds; writes its command, output and report into `folder`."""
        report = folder / "junit.xml"
        words: tuple[str, ...] = batch.words
        if batch.junit:
            words = (sys.executable, "-m", "pytest", *batch.words, f"--junitxml={report}")
            words += (f"--basetemp={temporary}", *self._pytest)
        (folder / "command").write_text(shlex.join(words) + "\n")
        began = time.monotonic()
        code = self._process(words, folder / "output.log")
        seconds = time.monotonic() - began
        return results_of(batch, code, report.read_text() if report.is_file() else "", seconds), seconds

    def _process(self, words: Sequence[str], log: Path) -> int:
        """Runs a command in a session of its own and returns its exit code; ends it after the limit."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes[:] = [process]
            for number in self._received:
                process.send_signal(number)
            try:
                return process.wait(self._limit)
            except subprocess.TimeoutExpired:
                output.write(f"\nended after {self._limit:g} s, the limit\n".encode())
            for number in (SIGINT, SIGKILL):
                os.killpg(process.pid, number)
                try:
                    return process.wait(_CLEAN_UP) or 1
                except subprocess.TimeoutExpired:
                    continue
            raise RuntimeError(f"{shlex.join(words)} does not end")


def _copy_logs(source: Path, target: Path) -> None:
    """Copies the log files below a folder."""
    for file in source.rglob("*.log"):
        if file.is_file():
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make flakes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", default=FOLDERS, help=f"files, folders ({', '.join(FOLDERS)})")
    parser.add_argument("--runs", type=int, default=5, help="how often (5)")
    parser.add_argument("--order", type=int, help="repeats the orders of an earlier time")
    parser.add_argument("--command", help="a shell command to repeat instead of tests")
    parser.add_argument("--before", default="", help="a shell command before each process, not measured")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for each process (3600)")
    parser.add_argument("--pytest", default="", help="more arguments of pytest, as one word")
    parser.add_argument(
        "--busy",
        default="1,2",
        help="busy processes for each core; of several numbers the runs have each in turn (1,2); 0: none",
    )
    parser.add_argument("--no-disk", dest="disk", action="store_false", help="no writes with fsync")
    parser.add_argument(
        "--memory", type=float, metavar="GIB", help="holds memory until a run starts with this much"
    )
    return parser


def main(words: Sequence[str]) -> int:
    parser = _arguments()
    parsed = parser.parse_args(words)
    order = random.randrange(10_000) if parsed.order is None else parsed.order  # noqa: S311
    loads = [Load(float(busy), parsed.disk, parsed.memory) for busy in parsed.busy.split(",")]
    try:
        if parsed.command:
            runs = repeated(parsed.command, runs=parsed.runs, loads=loads)
        else:
            runs = plan(test_files(parsed.paths), runs=parsed.runs, order=order, loads=loads)
    except ValueError as error:
        parser.error(str(error))
    logs = LOGS / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True)
    if not parsed.command:
        print(f"Orders: repeat them with --order {order}", flush=True)
    rig = Rig(logs, limit=parsed.limit, before=parsed.before, pytest=shlex.split(parsed.pytest))
    try:
        code = rig.run(runs)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows = table(rig.results)
    (logs / "table.txt").write_text(shown(rows) + "\n")
    print(shown([row for row in rows if row[2]] or rows[:10]))
    failed = sum(row[2] > 0 for row in rows)
    print(f"{len(rows)} tests, {failed} failed at least once; all of them: {logs / 'table.txt'}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
