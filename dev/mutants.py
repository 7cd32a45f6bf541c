"""`make mutants`: changes each line of pure decisions, and lists what no unit test notices.

mutmut makes the changes, in a copy of this checkout; `mutation_runs` runs the unit tests of the package that
reach them.  A survivor is a missing test, or a change without an effect; a person has to decide which.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev import mutation_runs

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = (
    "fournos.engine.queueing",
    "fournos.systems.jobs",
    "fournos.systems.multikueue",
    "fournos.engine.runtime.queue",
    "fournos.engine.runtime.lease",
    "fournos.engine.runtime.reconcile",
)
"""The default of MODULES."""
_COPIED = ("src", "tests", "config", "manifests", "docs", "samples", "deploy", "README.md", "pyproject.toml")
_TEXT = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Survivor:
    """A mutation that no test detected."""

    name: str
    before: str
    after: str

    @property
    def of_a_text(self) -> bool:
        """True if only a string differs: most strings are messages, which tests need not repeat."""
        return _TEXT.sub("", self.before) == _TEXT.sub("", self.after)

    def __str__(self) -> str:
        return f"{self.name}\n  - {self.before}\n  + {self.after}"


def survivor(name: str, diff: str) -> Survivor:
    """Returns the survivor of a unified diff."""

    def side(sign: str) -> str:
        lines = [line for line in diff.splitlines() if line.startswith(sign) and line[:3] != sign * 3]
        return " ".join(line[1:].strip() for line in lines)

    return Survivor(name, side("-"), side("+"))


def sources(module: str) -> str:
    """Returns mutmut's pattern for the files of a module or package."""
    path = Path("src", *module.split("."))
    return f"{path}/*" if (ROOT / path).is_dir() else f"{path}.py"


def tests(module: str) -> str:
    """Returns the directory with the unit tests of the module's package."""
    package = module.split(".")[1:]
    depth = 2 if package[0] in ("engine", "systems") else 1
    return "/".join(("tests/unit", *package[:depth]))


def table(modules: Sequence[str]) -> str:
    """Returns mutmut's settings: mutate these modules."""
    settings = {
        "source_paths": ["src"],
        "only_mutate": [sources(module) for module in modules],
        "do_not_mutate_patterns": [r"^\s*log\."],
        "also_copy": [name for name in _COPIED if name != "src"],
    }
    # A JSON list of strings is also valid TOML.
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    return f"\n[tool.mutmut]\n{lines}"


def _copy(to: Path, modules: Sequence[str]) -> None:
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to / name)
    with (to / "pyproject.toml").open("a") as file:
        file.write(table(modules))


def module_of(change: str) -> str:
    """Returns the module of a change, of a function (`x_`) or of a method (`xǁ`)."""
    return re.split(r"\.x[_ǁ]", change, maxsplit=1)[0]


def score(changes: Sequence[str], left: Sequence[str]) -> str:
    """Returns a line for each module: how many of its changes a test has noticed."""
    made, missed = Counter(map(module_of, changes)), Counter(map(module_of, left))
    return "\n".join(f"{name}: {made[name] - missed[name]} of {made[name]}" for name in sorted(made))


def _diffs(names: Sequence[str]) -> Iterator[Survivor]:
    """Yields the survivors.  The diffs are computed in this process: `mutmut show` takes a second each."""
    diff_of = importlib.import_module("mutmut.mutation.diff_apply").get_diff_for_mutant
    for name in names:
        path = Path("src", *module_of(name).split(".")).with_suffix(".py")
        yield survivor(name, diff_of(name, path=path))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", help="such as fournos.engine.queueing.ensure", default=DECISIONS
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="test processes at a time")
    parser.add_argument("--tests", nargs="+", help="instead of the unit tests of the modules' packages")
    parser.add_argument(
        "--budget", type=float, default=5.0, help="seconds of tests per change; the slowest are left out"
    )
    parser.add_argument("-k", dest="select", default="", help="pytest's expression: run only these tests")
    parser.add_argument("--texts", action="store_true", help="list changes of texts, too")
    return parser


def main() -> int:
    given = _parser().parse_args()
    chosen = given.tests or sorted({tests(module) for module in given.modules})
    with tempfile.TemporaryDirectory(prefix="fournos-mutants-") as scratch:
        _copy(Path(scratch), given.modules)
        os.chdir(scratch)
        changes = mutation_runs.make_changes()
        os.chdir("mutants")
        runs = mutation_runs.run(
            changes, ["-k", given.select, *chosen], workers=given.workers, budget=given.budget
        )
        os.chdir(scratch)
        survivors = list(_diffs(runs.survived))
        os.chdir(ROOT)
    listed = [change for change in survivors if given.texts or not change.of_a_text]
    print("\n".join(map(str, listed)))
    of_a_text = sum(change.of_a_text for change in survivors)
    print(f"{len(survivors)} changes survived, {of_a_text} of them of a text.")
    for function, count in Counter(mutant.rpartition("__mutmut_")[0] for mutant in runs.untested).items():
        print(f"{function}: no test calls it ({count} changes)")
    print(score(changes, (*runs.survived, *runs.untested)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
