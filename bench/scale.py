"""The parts that measure scale and faults: their options, and how each is run and shown."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from rich.console import Console

from bench import (
    ceiling,
    clock,
    etcd,
    failover,
    outage,
    report,
    report_scale,
    soak,
    soak_page,
    start,
    storage,
    upstream,
    workers,
)
from bench.shape import CLASSES, Shape
from fournos.systems.multikueue.names import MAX_WORKERS

Run: TypeAlias = Callable[[argparse.Namespace, Path, Console], dict[str, Any]]
"""Measures, shows the result, and returns it as JSON.  The path is the directory for logs."""


@dataclass(frozen=True, slots=True)
class Part:
    help: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Run


def _ceiling_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=300, metavar="300", help="objects of each system (300)")
    parser.add_argument("--queues", type=int, default=1, metavar="1", help="ClusterQueues (1)")
    most = len(CLASSES)
    parser.add_argument("--classes", type=int, default=most, choices=range(1, most + 1), help="classes (3)")
    parser.add_argument("--turns", type=int, default=1, metavar="1", help="how often all are measured (1)")
    parser.add_argument(
        "--systems", nargs="*", default=ceiling.SYSTEMS, choices=ceiling.SYSTEMS, help="beside Kueue (all)"
    )


def _ceiling(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        ceiling.measure(
            options.cluster,
            options.jobs,
            shape=Shape(options.queues, options.classes),
            turns=options.turns,
            systems=options.systems,
            directory=directory,
            profile=options.profile,
            keep=options.keep,
        )
    )
    report_scale.show_ceiling(measured, console)
    return measured.to_json()


def _load_options(parser: argparse.ArgumentParser, *, slots: int, rate: float) -> None:
    parser.add_argument(
        "--slots", type=int, default=slots, metavar=str(slots), help=f"jobs that run ({slots})"
    )
    parser.add_argument(
        "--rate", type=float, default=rate, metavar=str(rate), help=f"runs that end a second ({rate:g})"
    )


def _failover_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=3, metavar="3", help="leaders that are killed (3)")
    parser.add_argument(
        "--graceful", type=int, default=3, metavar="3", help="leaders that end at a SIGTERM (3)"
    )
    _load_options(parser, slots=10, rate=4.0)


def _failover(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        failover.measure(
            options.cluster,
            kills=options.kills,
            graceful=options.graceful,
            slots=options.slots,
            rate=options.rate,
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_failover(measured, console)
    return measured.to_json()


def _start_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=1000, metavar="1000", help="live jobs (1000)")


def _start(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        start.measure(
            options.cluster,
            options.jobs,
            directory=directory,
            profile=options.profile,
            keep=options.keep,
        )
    )
    report_scale.show_start(measured, console)
    return measured.to_json()


def _outage_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, metavar="20", help="how long each lasts (20)")
    parser.add_argument(
        "--webhook-seconds",
        type=float,
        metavar="20",
        help="how long Kueue's webhooks are away (as --seconds)",
    )
    parser.add_argument("--how", nargs="+", default=outage.HOWS, choices=outage.HOWS, help="default: all")
    parser.add_argument(
        "--window", type=float, default=10.0, metavar="10", help="seconds in which requests are counted (10)"
    )
    _load_options(parser, slots=10, rate=4.0)


def _outage(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        outage.measure(
            options.cluster,
            seconds={
                **dict.fromkeys(outage.HOWS, options.seconds),
                "webhook": options.webhook_seconds or options.seconds,
            },
            hows=options.how,
            slots=options.slots,
            rate=options.rate,
            window=options.window,
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_outages(measured, console)
    return measured.to_json()


def _etcd_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=8.0, metavar="8", help="how long each lasts (8)")
    parser.add_argument("--how", nargs="+", default=etcd.HOWS, choices=etcd.HOWS, help="default: all")
    parser.add_argument("--turns", type=int, default=1, metavar="1", help="how often each happens (1)")
    parser.add_argument("--live", type=int, default=30, metavar="30", help="jobs that live at a time (30)")
    parser.add_argument(
        "--window", type=float, default=10.0, metavar="10", help="seconds in which requests are counted (10)"
    )
    _load_options(parser, slots=10, rate=4.0)


def _etcd(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        etcd.measure(
            options.cluster,
            seconds=options.seconds,
            hows=options.how,
            turns=options.turns,
            live=options.live,
            slots=options.slots,
            rate=options.rate,
            window=options.window,
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_etcd(measured, console)
    return measured.to_json()


def _clock_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jumps", type=int, nargs="+", default=clock.JUMPS, metavar="SECONDS", help="default: ±1 h, ±1 d"
    )
    parser.add_argument(
        "--hold", type=float, default=70.0, metavar="70", help="seconds for which the clock is wrong (70)"
    )
    _load_options(parser, slots=10, rate=4.0)


def _clock(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        clock.measure(
            options.cluster,
            jumps=options.jumps,
            hold=options.hold,
            slots=options.slots,
            rate=options.rate,
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_clock(measured, console)
    return measured.to_json()


def _storage_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=40.0, metavar="40", help="how long each lasts (40)")
    parser.add_argument("--how", nargs="+", default=storage.HOWS, choices=storage.HOWS, help="default: all")
    _load_options(parser, slots=10, rate=4.0)


def _storage(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        storage.measure(
            options.cluster,
            seconds=options.seconds,
            hows=options.how,
            slots=options.slots,
            rate=options.rate,
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_absences(measured, console)
    return measured.to_json()


def _workers_options(parser: argparse.ArgumentParser) -> None:
    most = MAX_WORKERS
    parser.add_argument("--workers", type=int, default=most, choices=range(3, most + 1), help="workers (20)")
    parser.add_argument("--jobs", type=int, default=200, metavar="200", help="jobs of each half (200)")
    parser.add_argument("--rate", type=float, default=0.5, metavar="0.5", help="jobs a second (0.5)")


def _workers(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        workers.measure(
            options.cluster,
            workers=options.workers,
            jobs=options.jobs,
            rate=options.rate,
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_dispatches(measured, console)
    return measured.to_json()


def _upstream_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fournos", type=Path, required=True, metavar="DIR", help="a checkout of yours")
    parser.add_argument(
        "--python", type=Path, metavar="FILE", help="interpreter with its packages (DIR/.venv/bin/python)"
    )
    parser.add_argument("--jobs", type=int, default=60, metavar="60", help="jobs together (60)")
    parser.add_argument("--turns", type=int, default=1, metavar="1", help="how many turns each takes (1)")


def _upstream(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    checkout = options.fournos.resolve()
    measured = asyncio.run(
        upstream.measure(
            options.cluster,
            options.jobs,
            checkout=checkout,
            python=(options.python or checkout / ".venv/bin/python").absolute(),
            turns=options.turns,
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_beside(measured, console)
    return measured.to_json()


def _soak_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=10.0, metavar="10", help="how long (10)")
    parser.add_argument("--live", type=int, default=30, metavar="30", help="jobs that live at a time (30)")
    _load_options(parser, slots=10, rate=4.0)
    parser.add_argument("--every", type=float, default=5.0, metavar="5", help="seconds between samples (5)")
    parser.add_argument(
        "--kill-every",
        type=float,
        default=0.0,
        metavar="0",
        help="minutes between kills of the leader (none)",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="where the report goes (bench/results/…)")


def _soak(options: argparse.Namespace, directory: Path, console: Console) -> dict[str, Any]:
    measured = asyncio.run(
        soak.measure(
            options.cluster,
            minutes=options.minutes,
            live=options.live,
            slots=options.slots,
            rate=options.rate,
            every=options.every,
            kill_every=options.kill_every,
            see=lambda sample: report_scale.show_sample(sample, console),
            directory=directory,
            keep=options.keep,
        )
    )
    report_scale.show_soak(measured, console)
    html = options.html or directory / "report.html"
    html.write_text(soak_page.page(measured, report.surroundings()), encoding="utf-8")
    console.print(f"Report: {html}")
    return measured.to_json()


PARTS: Final = {
    "ceiling": Part("Kueue alone, and each system beside it", _ceiling_options, _ceiling),
    "failover": Part("leaders that are killed or end at a SIGTERM, under load", _failover_options, _failover),
    "start": Part("the start of an operator beside many live jobs", _start_options, _start),
    "outage": Part(
        "the API server hangs, is gone or refuses, Kueue's webhooks are away, under load",
        _outage_options,
        _outage,
    ),
    "etcd": Part("etcd is compacted, paused or full, under load", _etcd_options, _etcd),
    "clock": Part("the operator's clock jumps, under load", _clock_options, _clock),
    "storage": Part("the history's volume full, or PostgreSQL away, under load", _storage_options, _storage),
    "workers": Part("many MultiKueue workers, one hangs and one flaps", _workers_options, _workers),
    "upstream": Part("the published operator, of a checkout of yours", _upstream_options, _upstream),
    "soak": Part("short jobs without a pause, sampled, with a report", _soak_options, _soak),
}
