"""The parts that measure scale and faults: their options, and how each is run and shown."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from rich.console import Console

from bench import (
    ceiling,
    failover,
    outage,
    report_scale,
    soak,
    start,
    upstream,
)
from bench.published_operators import PUBLISHED
from bench.shape import CLASSES, Shape

Values: TypeAlias = dict[str, Any]
"""Parameter of a part's `measure` → its value."""

COMMON: Final = frozenset({"part", "json", "cluster", "keep", "profile"})
"""The options that all parts have."""


def own(options: argparse.Namespace) -> Values:
    """Returns a part's own options, which are named after the parameters of its `measure`."""
    return {name: value for name, value in vars(options).items() if name not in COMMON}


@dataclass(frozen=True, slots=True)
class Part:
    help: str
    add: Callable[[argparse.ArgumentParser], None]
    measure: Callable[..., Coroutine[Any, Any, Any]]
    """Takes the name of the cluster, `directory`, `keep`, and what `values` returns."""
    show: Callable[[Any, Console], None]
    values: Callable[[argparse.Namespace], Values] = own

    def arguments(self, options: argparse.Namespace, directory: Path) -> Values:
        """Returns the arguments of `measure`; `directory` is for logs."""
        return {**self.values(options), "directory": directory, "keep": options.keep}

    def run(self, options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
        """Measures, shows the result, and returns it as JSON."""
        measured = asyncio.run(self.measure(options.cluster, **self.arguments(options, directory)))
        self.show(measured, console)
        content: dict[str, Any] = measured.to_json()
        return content


def _load_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slots", type=int, default=10, metavar="10", help="jobs that run (10)")
    parser.add_argument("--rate", type=float, default=4.0, metavar="4.0", help="runs that end a second (4)")


def _ceiling_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=int, default=300, dest="objects", metavar="300", help="objects of each system (300)"
    )
    parser.add_argument("--queues", type=int, default=1, metavar="1", help="ClusterQueues (1)")
    most = len(CLASSES)
    parser.add_argument("--classes", type=int, default=most, choices=range(1, most + 1), help="classes (3)")
    parser.add_argument("--turns", type=int, default=1, metavar="1", help="how often all are measured (1)")
    parser.add_argument(
        "--systems", nargs="*", default=ceiling.SYSTEMS, choices=ceiling.SYSTEMS, help="beside Kueue (all)"
    )


def _ceiling_values(options: argparse.Namespace) -> Values:
    values = own(options)
    shape = Shape(values.pop("queues"), values.pop("classes"))
    return {**values, "shape": shape, "profile": options.profile}


def _failover_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=3, metavar="3", help="leaders that are killed (3)")
    parser.add_argument(
        "--graceful", type=int, default=3, metavar="3", help="leaders that end at a SIGTERM (3)"
    )
    _live_options(parser)
    _load_options(parser)


def _start_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=1000, metavar="1000", help="live jobs (1000)")


def _start_values(options: argparse.Namespace) -> Values:
    return {**own(options), "profile": options.profile}


def _window_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--window", type=float, default=10.0, metavar="10", help="seconds in which requests are counted (10)"
    )


def _live_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--live", type=int, default=30, metavar="30", help="jobs that live at a time (30)")


def _outage_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, metavar="20", help="how long each lasts (20)")
    parser.add_argument(
        "--how", nargs="+", default=outage.HOWS, choices=outage.HOWS, dest="hows", help="default: all"
    )
    _window_options(parser)
    _load_options(parser)


def _upstream_options(parser: argparse.ArgumentParser) -> None:
    for option, published in PUBLISHED.items():
        kind = published.subject.resource.kind
        parser.add_argument(
            f"--{option}", type=Path, metavar="DIR", help=f"your checkout of the operator of {kind}s"
        )
    parser.add_argument(
        "--python", type=Path, metavar="FILE", help="Fournos' interpreter (DIR/.venv/bin/python)"
    )
    parser.add_argument("--jobs", type=int, default=60, metavar="60", help="objects together (60)")
    parser.add_argument("--turns", type=int, default=1, metavar="1", help="how many turns each takes (1)")


def _upstream_values(options: argparse.Namespace) -> Values:
    values = own(options)
    checkouts = {option: values.pop(option) for option in PUBLISHED}
    return {**values, "checkouts": {option: path for option, path in checkouts.items() if path}}


def _soak_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=10.0, metavar="10", help="how long (10)")
    _live_options(parser)
    _load_options(parser)
    parser.add_argument("--every", type=float, default=5.0, metavar="5", help="seconds between samples (5)")
    parser.add_argument(
        "--kill-every",
        type=float,
        default=0.0,
        metavar="0",
        help="minutes between kills of the leader (none)",
    )
    parser.add_argument("--enable", default="jobs", metavar="jobs", help="parts of the operator (jobs)")


def _soak_values(options: argparse.Namespace) -> Values:
    return {**own(options), "see": partial(report_scale.show_sample, console=Console())}


PARTS: Final = {
    "ceiling": Part(
        "Kueue alone, and each system beside it",
        _ceiling_options,
        ceiling.measure,
        report_scale.show_ceiling,
        _ceiling_values,
    ),
    "failover": Part(
        "leaders that are killed or end at a SIGTERM, under load",
        _failover_options,
        failover.measure,
        report_scale.show_failover,
    ),
    "start": Part(
        "the start of an operator beside many live jobs",
        _start_options,
        start.measure,
        report_scale.show_start,
        _start_values,
    ),
    "outage": Part(
        "the API server hangs or is gone, under load",
        _outage_options,
        outage.measure,
        report_scale.show_outages,
    ),
    "upstream": Part(
        "published operators, of checkouts of yours",
        _upstream_options,
        upstream.measure,
        report_scale.show_beside,
        _upstream_values,
    ),
    "soak": Part(
        "short jobs without a pause, sampled",
        _soak_options,
        soak.measure,
        report_scale.show_soak,
        _soak_values,
    ),
}
