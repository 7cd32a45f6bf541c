"""`python -m bench` with the name of a part, such as lifecycle.

Without a name those parts run that no fault disturbs and that take minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench import (
    ceiling,
    check,
    dispatch,
    failover,
    history,
    lifecycle,
    report,
    soak,
    start,
    upstream,
    web,
)
from bench.published_operators import PUBLISHED
from devcluster import DevclusterError

EVERYTHING: Final = ("lifecycle", "dispatch", "history", "web")
_RESULTS: Final = Path(__file__).resolve().parent / "results"
_LOAD: Final = {
    "slots": (10, "jobs that run"),
    "rate": (4.0, "runs that end a second"),
}
_LIVE: Final = {"live": (30, "jobs that live at a time")}


def _sizes(text: str) -> list[int]:
    sizes = [int(word) for word in text.split(",")]
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError("numbers of jobs, like 1,30,500")
    return sizes


@dataclass(frozen=True, slots=True)
class Part:
    """One measurement."""

    help: str
    measure: Callable[..., Coroutine[Any, Any, report.Result]]
    """Takes the name of the cluster, `directory` for logs, `keep`, and the options."""
    options: Mapping[str, tuple[Any, str]]
    """Parameter of `measure` → default and help."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        for name, (default, words) in self.options.items():
            option = f"--{name.replace('_', '-')}"
            if default is False:
                parser.add_argument(option, action="store_true", help=words)
                continue
            kinds: dict[type, Callable[[str], Any]] = {list: _sizes, type(None): Path}
            kind = kinds.get(type(default), type(default))
            shown = ",".join(map(str, default)) if isinstance(default, list) else default
            parser.add_argument(
                option, type=kind, default=default, help=words if default is None else f"{words} ({shown})"
            )

    def arguments(self, options: argparse.Namespace) -> dict[str, Any]:
        """Returns the options that are the part's own."""
        return {name: getattr(options, name) for name in self.options}


PARTS: Final = {
    "lifecycle": Part(
        "jobs from submission to Succeeded",
        lifecycle.measure,
        {
            "jobs": ([1, 30, 500], "sizes of the rounds; 1 means 20 jobs, one after the other"),
            "durable": (False, "etcd waits for the disk; Kueue and the API server as shipped"),
        },
    ),
    "dispatch": Part(
        "jobs to two workers, by our adapter and Kueue's",
        dispatch.measure,
        {"jobs": ([1, 100], "sizes of the rounds; 1 means 10 jobs, one after the other")},
    ),
    "history": Part(
        "pages of a history with many jobs; no cluster", history.measure, {"jobs": (history.JOBS, "jobs")}
    ),
    "web": Part(
        "the page with many live jobs and open tabs",
        web.measure,
        {
            "jobs": (web.JOBS, "live jobs"),
            "reads": (20, "reads of each page"),
            "tabs": (20, "open tabs"),
            "seconds": (20.0, "how long the tabs are open"),
        },
    ),
    "ceiling": Part(
        "Kueue alone, and each system beside it",
        ceiling.measure,
        {"jobs": (300, "objects of each system"), "turns": (1, "how often all are measured")},
    ),
    "failover": Part(
        "leaders that are killed or end at a SIGTERM, under load",
        failover.measure,
        {
            "kills": (3, "leaders that are killed"),
            "graceful": (3, "leaders that end at a SIGTERM"),
            **_LIVE,
            **_LOAD,
        },
    ),
    "start": Part(
        "the start of an operator beside many live jobs", start.measure, {"jobs": (1000, "live jobs")}
    ),
    "soak": Part(
        "short jobs without a pause, sampled",
        soak.measure,
        {
            "minutes": (10.0, "how long"),
            "every": (5.0, "seconds between samples"),
            "kill_every": (0.0, "minutes between kills of the leader; 0: none"),
            "outages": (0.0, "seconds for which the API server then hangs, and is gone; 0: none"),
            "window": (10.0, "seconds in which requests are counted before and after them"),
            "enable": ("jobs", "parts of the operator"),
            **_LIVE,
            **_LOAD,
        },
    ),
    "upstream": Part(
        "published operators, of checkouts of yours",
        upstream.measure,
        {
            **{name: (None, f"your checkout of the published operator `{name}`") for name in PUBLISHED},
            "python": (None, "Fournos' interpreter (DIR/.venv/bin/python)"),
            "jobs": (60, "objects together"),
            "turns": (1, "how many turns each takes"),
        },
    ),
}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", type=Path, metavar="FILE", help="where the numbers go (bench/results/…)")
    common.add_argument("--cluster", default="bench", help="name of the local cluster that is made (bench)")
    common.add_argument("--keep", action="store_true", help="do not take the cluster down at the end")
    parts = parser.add_subparsers(dest="part", required=True)
    for name, part in PARTS.items():
        part.add(parts.add_parser(name, parents=[common], help=part.help))
    committed = parts.add_parser("check", help="compare the ratios of a result with bench/ranges.yaml")
    committed.add_argument("file", type=Path, metavar="FILE", nargs="+", help="what a part wrote with --json")
    return parser


def main(arguments: list[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    for words in [given] if given else [[part] for part in EVERYTHING]:
        options = _arguments().parse_args(words)
        if options.part == "check":
            return check.main(options.file)
        try:
            _measure(options)
        except DevclusterError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


def _measure(options: argparse.Namespace) -> None:
    console, part = Console(), PARTS[options.part]
    surroundings = report.surroundings()
    directory = _RESULTS / options.part
    directory.mkdir(parents=True, exist_ok=True)
    measured = asyncio.run(
        part.measure(options.cluster, directory=directory, keep=options.keep, **part.arguments(options))
    )
    report.show(options.part, measured, console)
    path = options.json or _RESULTS / f"{options.part}.json"
    report.write(path, {"surroundings": surroundings, options.part: measured.to_json()})
    console.print(f"Numbers: {path}")


if __name__ == "__main__":
    sys.exit(main())
