"""Prints the results of a measurement as tables, and writes them to a file."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.comparison import Compared
from bench.dispatch import Dispatched
from bench.history import Filled
from bench.lifecycle import Round
from bench.web import Page, p95_of
from fournos import __version__

MB: Final = 1_000_000


def table(title: str, *headings: str, left: int = 0) -> Table:
    """Returns an empty table, whose first `left` columns have texts and the others numbers."""
    empty = Table(title=title, title_justify="left")
    for column, heading in enumerate(headings):
        empty.add_column(heading, justify="left" if column < left else "right")
    return empty


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    unit: str
    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


ALONE = Target("one job at a time, p50", "s", 0.2)
THIRTY = Target("30 jobs together, p50", "s", 1.6)
MANY = Target("500 jobs together", "jobs/s", 12, at_least=True)
REQUESTS = Target("API requests a job, all but the benchmark's", "", 18)
CPU = Target("operator CPU a job", "ms", 15)


MIRROR = Target("admitted on a worker → copy made, p50", "ms", 150)
STATUS = Target("status on a worker → status here, p50", "ms", 150)

LIST = Target("any list page, warm, p95", "ms", 20)
FILTER = Target("any filter, cold, p95", "ms", 100)
JOB = Target("a job's page, p95", "ms", 20)

SERVED = Target("any page, p95", "ms", 50)
WEIGHT = Target("any page with all that it loads, compressed", "kB", 150)
LIVE_CPU = Target("server CPU at ten changes a second", "% of a core", 20)
PAGE_MEMORY = Target("server memory", "MB", 300)

Show = Callable[[Target, float], None]


def show_rounds(rounds: Sequence[Round], console: Console) -> None:
    _show(rounds, console, "Life of a job, executors instant")
    _targets(console, _lifecycle_targets(rounds))


def show_comparison(compared: Sequence[Compared], console: Console) -> None:
    shown = table("The operators of two checkouts, in turns", "jobs", "", "other", "this", "this / other")
    for each in compared:
        shown.add_row(each.size, each.what, f"{each.other:.3f}", f"{each.this:.3f}", f"{each.ratio:.3f}")
    console.print(shown)


def _show(rounds: Sequence[Round], console: Console, title: str) -> None:
    shown = table(title, "number", "p50", "p95", "per s", "req each", "CPU each", "passes", "memory")
    for each in rounds:
        shown.add_row(
            f"{each.jobs} {each.how}",
            f"{each.p50:.3f} s",
            f"{each.p95:.3f} s",
            f"{each.rate:.1f}",
            f"{each.requests['all']:.1f}",
            f"{each.cpu_ms:.1f} ms",
            f"{each.passes:.1f}",
            f"{each.rss / MB:.0f} MB",
        )
    console.print(shown)
    for each in rounds:
        title = f"{each.jobs} {each.how}: where the time goes"
        hops = table(title, "hop (at work)", "p50", "p95", left=1)
        for words, (p50, p95) in each.hops.items():
            hops.add_row(words, f"{p50 * 1000:.0f} ms", f"{p95 * 1000:.0f} ms")
        whose = ", ".join(f"{who} {n:.1f}" for who, n in each.requests.items())
        console.print(hops)
        console.print(f"Requests each: {whose}.")
        used = ", ".join(f"{name} {ms:.0f}" for name, ms in each.cpu_of.items())
        console.print(f"CPU ms each: {used}.  Others took {each.others:.0%} of the machine.")
        if each.together:
            console.print(f"Without them about {each.rate_alone:.1f} a second.")
        console.print()


def _lifecycle_targets(rounds: Sequence[Round]) -> list[tuple[Target, float]]:
    """Returns the targets that the rounds cover, with the measured values."""
    targets: list[tuple[Target, float]] = []
    for each in rounds:
        if not each.together:
            targets.append((ALONE, each.p50))
        elif each.jobs == 30:
            targets.append((THIRTY, each.p50))
        elif each.jobs == 500:
            targets.append((MANY, each.rate))
    worst = max(rounds, key=lambda each: each.requests["all"])
    most = max(rounds, key=lambda each: each.jobs)
    return [*targets, (REQUESTS, worst.requests["all"]), (CPU, most.cpu_ms)]


def show_dispatch(rounds: Sequence[Dispatched], console: Console) -> None:
    headings = ("jobs", "adapter", "admitted → copy, p50", "status → here, p50", "all finished", "rate")
    shown = table("Jobs to two workers", *headings)
    for one in rounds:
        hops = (f"{one.mirror_p50 * 1000:.0f} ms", f"{one.status_p50 * 1000:.0f} ms")
        shown.add_row(str(one.jobs), one.adapter, *hops, f"{one.seconds:.1f} s", f"{one.rate:.1f}/s")
    console.print(shown)
    first = next(one for one in rounds if one.adapter == "ours")
    most = max(one.jobs for one in rounds)
    rates = {one.adapter: one.rate for one in rounds if one.jobs == most}
    beside = Target(f"{most} jobs, times the rate of Kueue's adapter", "", 1, at_least=True)
    waits = [(MIRROR, first.mirror_p50 * 1000), (STATUS, first.status_p50 * 1000)]
    _targets(console, [*waits, (beside, rates["ours"] / rates["Kueue's"])])


def show_history(filled: Sequence[Filled], console: Console) -> None:
    for each in filled:
        title = (
            f"{each.jobs} jobs in {each.database}: {each.bytes / MB:.0f} MB, made in {each.seconds:.0f} s, "
            f"an update takes {each.record_ms:.1f} ms"
        )
        shown = table(title, "page", "", "p50", "p95", "fastest", "CPU, p50", left=2)
        for one in each.reads:
            times = (one.p50, one.p95, one.least, one.cpu)
            shown.add_row(one.what, one.how, *(f"{each:.1f} ms" for each in times))
        console.print(shown)
        warm = {one.what: one.p95 for one in each.reads if one.how == "warm"}
        cold = next(one.p95 for one in each.reads if (one.what, one.how) == ("all filters", "cold"))
        job = warm.pop("a job")
        lists = [p95 for what, p95 in warm.items() if not what.startswith(("usage", "waiting"))]
        _targets(console, [(LIST, max(lists)), (FILTER, cold), (JOB, job)])


def show_web(page: Page, console: Console) -> None:
    headings = ("page", "", "changed, p50", "p95", "unchanged, p50", "p95", "kB", "kB with all")
    shown = table(f"The page with {page.jobs} live jobs", *headings, left=1)
    for one in page.pages:
        taken = (median(one.changed), p95_of(one.changed), median(one.unchanged), p95_of(one.unchanged))
        times = (f"{value * 1000:.0f} ms" for value in taken)
        shown.add_row(one.path, str(one.status), *times, f"{one.bytes / 1000:.1f}", f"{one.whole / 1000:.1f}")
    console.print(shown)
    shown = table("Open tabs", "", "open", "asked", "304", "answer, p50", "p95", "CPU", left=1)
    for name, tabs in (("ten status changes a second", page.changing), ("nothing changes", page.idle)):
        shown.add_row(
            name,
            *(str(tabs.tabs), str(tabs.asked), str(tabs.unchanged)),
            *(f"{median(tabs.times) * 1000:.0f} ms", f"{p95_of(tabs.times) * 1000:.0f} ms"),
            f"{tabs.cpu_percent:.1f} %",
        )
    console.print(shown)
    console.print(f"The server has {page.rss / MB:.0f} MB (at most {page.peak / MB:.0f} MB).")
    _targets(
        console,
        [
            (SERVED, max(p95_of(one.changed) for one in page.pages) * 1000),
            (WEIGHT, max(one.whole for one in page.pages) / 1000),
            (LIVE_CPU, page.changing.cpu_percent),
            (PAGE_MEMORY, page.rss / MB),
        ],
    )


def _targets(console: Console, measured: Sequence[tuple[Target, float]]) -> None:
    shown = table("Targets", "", "target", "measured", left=1)
    shown.add_column("")
    for target, value in measured:
        sign = "≥" if target.at_least else "≤"
        shown.add_row(
            target.what,
            f"{sign} {target.limit:g} {target.unit}".rstrip(),
            f"{value:.2f} {target.unit}".rstrip(),
            "[green]met[/]" if target.met(value) else "[red]missed[/]",
        )
    console.print(shown)


def surroundings() -> dict[str, Any]:
    """Returns the environment that affects the results: what the benchmark cannot change."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
