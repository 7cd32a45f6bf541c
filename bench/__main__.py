"""`python -m bench` with the name of a part, such as lifecycle or client.

Without a name all parts run but those of scale and faults, which take longer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import (
    check,
    comparison,
    dispatch,
    history,
    lifecycle,
    report,
    scale,
    web,
)
from devcluster import DevclusterError

EVERYTHING = ("lifecycle", "dispatch", "history", "web")
_PARTS = (*EVERYTHING, *scale.PARTS, "check")
_RESULTS = Path(__file__).resolve().parent / "results"


def _sizes(text: str) -> list[int]:
    sizes = [int(word) for word in text.split(",")]
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError("numbers of jobs, like 1,30,500")
    return sizes


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", type=Path, metavar="FILE", help="where the numbers go (bench/results/…)")
    common.add_argument("--cluster", default="bench", help="name of the local cluster that is made (bench)")
    common.add_argument("--keep", action="store_true", help="do not take the cluster down at the end")
    common.add_argument("--profile", type=Path, metavar="FILE", help="run the operator under cProfile")
    parts = parser.add_subparsers(dest="part", metavar=f"{{{','.join(_PARTS)}}}")
    life = parts.add_parser("lifecycle", parents=[common], help="jobs from submission to Succeeded")
    life.add_argument(
        "--jobs",
        type=_sizes,
        default=[1, 30, 500],
        metavar="1,30,500",
        help="sizes of the rounds; 1 means 20 jobs, one after the other",
    )
    life.add_argument(
        "--against",
        type=Path,
        metavar="DIR",
        help="take turns with the operator of another checkout, such as a git worktree of an earlier commit",
    )
    life.add_argument(
        "--durable", action="store_true", help="etcd waits for the disk; Kueue and the API server as shipped"
    )
    life.add_argument("--turns", type=int, default=2, metavar="2", help="how many turns each takes (2)")
    away = parts.add_parser(
        "dispatch", parents=[common], help="jobs to two workers, by our adapter and Kueue's"
    )
    away.add_argument("--jobs", type=_sizes, default=[1, 100], metavar="1,100", help="sizes of the rounds")
    past = parts.add_parser("history", parents=[common], help="pages of a history with many jobs; no cluster")
    past.add_argument("--jobs", type=int, default=history.JOBS, metavar="200000")
    past.add_argument("--durable", action="store_true", help="PostgreSQL waits for the disk")
    page = parts.add_parser("web", parents=[common], help="the page with many live jobs and open tabs")
    page.add_argument("--jobs", type=int, default=web.JOBS, metavar="10000")
    page.add_argument("--reads", type=int, default=web.READS, metavar="20", help="reads of each page (20)")
    page.add_argument("--tabs", type=int, default=web.TABS, metavar="200", help="open tabs (200)")
    page.add_argument("--seconds", type=float, default=web.SECONDS, help="how long jobs change (10)")
    for name, part in scale.PARTS.items():
        part.add(parts.add_parser(name, parents=[common], help=part.help))
    committed = parts.add_parser("check", help="compare the ratios of a result with bench/ranges.yaml")
    committed.add_argument("file", type=Path, metavar="FILE", nargs="+", help="what a part wrote with --json")
    return parser


def main(arguments: list[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    parts = [given] if given else [[part] for part in EVERYTHING]
    parser = _arguments()
    for words in parts:
        options = parser.parse_args(words)
        if options.part is None:
            parser.error(f"say one of {', '.join(_PARTS)}")
        if options.part == "check":
            return check.main(options.file)
        try:
            _measure(options)
        except DevclusterError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


def _measure(options: argparse.Namespace) -> None:
    console = Console()
    surroundings = report.surroundings()
    directory = _RESULTS / options.part
    directory.mkdir(parents=True, exist_ok=True)
    common: dict[str, Any] = {
        "directory": directory,
        "profile": options.profile,
        "keep": options.keep,
    }
    if options.part == "lifecycle" and options.against:
        turns = asyncio.run(
            comparison.compare(
                options.cluster,
                options.jobs,
                against=options.against.resolve(),
                turns=options.turns,
                directory=directory,
                keep=options.keep,
            )
        )
        report.show_comparison(comparison.summary(turns), console)
        numbers: dict[str, Any] = {"comparison": [each.to_json() for each in turns]}
    elif options.part == "lifecycle":
        rounds = asyncio.run(
            lifecycle.measure(options.cluster, options.jobs, durable=options.durable, **common)
        )
        report.show_rounds(rounds, console)
        numbers = {"lifecycle": [each.to_json() for each in rounds]}
    elif options.part in scale.PARTS:
        numbers = {options.part: scale.PARTS[options.part].run(options, directory, console)}
    elif options.part == "history":
        filled = asyncio.run(history.measure(options.jobs, durable=options.durable))
        report.show_history(filled, console)
        numbers = {"history": [each.to_json() for each in filled]}
    elif options.part == "dispatch":
        taken = asyncio.run(dispatch.measure(options.cluster, options.jobs, keep=options.keep))
        report.show_dispatch(taken, console)
        numbers = {"dispatch": [asdict(each) for each in taken]}
    else:
        page = asyncio.run(
            web.measure(
                options.cluster,
                options.jobs,
                reads=options.reads,
                tabs=options.tabs,
                seconds=options.seconds,
                keep=options.keep,
            )
        )
        report.show_web(page, console)
        numbers = {"web": page.to_json()}
    path = options.json or _RESULTS / f"{options.part}.json"
    report.write(path, {"surroundings": surroundings, **numbers})
    console.print(f"Numbers: {path}")


if __name__ == "__main__":
    sys.exit(main())
