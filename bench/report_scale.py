"""Prints the results of the parts that measure scale and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from bench.ceiling import Ceiling
from bench.failover import Failover
from bench.outage import Outage, Outages
from bench.report import MB, table
from bench.soak import Sample, Soak
from bench.start import Started
from bench.upstream import Beside


def show_ceiling(measured: Ceiling, console: Console) -> None:
    shape = measured.shape
    title = f"{shape.classes} classes over {shape.queues} queues, executors instant"
    shown = table(title, "", "objects", "per s", "alone", "req each", "CPU each", "others")
    for each in measured.turns:
        shown.add_row(
            each.system,
            str(each.objects),
            f"{each.rate:.1f}",
            f"{each.rate_alone:.1f}",
            f"{each.requests:.1f}",
            f"{each.cpu:.0f} ms",
            f"{each.others:.0%}",
        )
    console.print(shown)
    for each in measured.turns:
        processes = ", ".join(f"{name} {ms:.0f}" for name, ms in each.cpu_ms.items())
        console.print(f"CPU ms each, {each.system}: {processes}.")
    beside = table("Times Kueue alone, medians", "", "")
    for ratio, value in measured.ratios().items():
        beside.add_row(ratio, f"{value:.2f}")
    console.print(beside)


def show_failover(measured: Failover, console: Console) -> None:
    shown = table("Ends of the leader", "", "new leader after", "last write → first write")
    for each in measured.handovers:
        shown.add_row(each.how, f"{each.led:.2f} s", f"{each.gap:.2f} s")
    console.print(shown)
    console.print(f"{measured.ends} runs ended meanwhile.")
    _show_wrong(measured.wrong(), console)


def show_start(measured: Started, console: Console) -> None:
    shown = table(f"Start beside {measured.jobs} live jobs", "", "")
    shown.add_row("start → caches complete", f"{measured.ready_after:.2f} s")
    shown.add_row("start → first decision", f"{measured.decided_after:.2f} s")
    shown.add_row("CPU until then", f"{measured.cpu:.2f} s")
    shown.add_row("memory, at most", f"{measured.peak / MB:.0f} MB")
    console.print(shown)


def show_outages(measured: Outages, console: Console) -> None:
    _show_faults("The API server away", measured.outages, console)
    _show_wrong(measured.wrong(), console)


def _show_faults(title: str, outages: Sequence[Outage], console: Console) -> None:
    shown = table(
        title,
        *("", "for", "requests before", "meanwhile", "after", "first write", "steady", "restarts"),
    )
    for each in outages:
        shown.add_row(
            each.how,
            f"{each.seconds:g} s",
            str(each.requests_before),
            f"{each.requests_meanwhile:.0f}",
            f"{each.requests_after} ({each.requests_ratio:.2f} ×)",
            f"{each.first_write:.1f} s",
            f"{each.steady:.1f} s",
            str(each.restarts),
        )
    console.print(shown)


def show_beside(measured: Beside, console: Console) -> None:
    title = "Objects together, executors instant"
    shown = table(title, "", "version", "objects", "p50", "per s", "req each", "CPU each", left=2)
    for option, pair in measured.pairs.items():
        for turn in pair.turns:
            shown.add_row(
                f"{option}, {turn.cost.system}",
                pair.versions[turn.cost.system],
                str(turn.cost.objects),
                f"{turn.p50:.1f} s",
                f"{turn.cost.rate:.2f}",
                f"{turn.cost.requests:.1f}",
                f"{turn.cost.cpu:.0f} ms",
            )
    console.print(shown)
    for ratio, value in measured.ratios().items():
        console.print(f"{ratio}, this over the other: {value:.2f}")


def show_sample(sample: Sample, console: Console) -> None:
    console.print(
        f"{sample.at:5.0f} s  {sample.ends:3} ended  end → next admitted {sample.p50:.2f} s, "
        f"p99 {sample.p99:.2f} s  {sample.requests:.0f} requests/s  CPU {sample.cpu:.0f} %  "
        f"{sample.rss / MB:.0f} MB  {sample.files} files  etcd {sample.storage / MB:.0f} MB"
    )


def show_soak(measured: Soak, console: Console) -> None:
    shown = table("Last part of the samples over the first; what went wrong", "", "")
    for ratio, value in measured.ratios().items():
        shown.add_row(ratio, f"{value:.2f}")
    console.print(shown)
    _show_wrong(measured.wrong(), console)


def _show_wrong(wrong: Mapping[str, Sequence[str]], console: Console) -> None:
    for words, each in wrong.items():
        console.print(f"{words}: {len(each)}{': ' if each else ''}{', '.join(each[:5])}")
