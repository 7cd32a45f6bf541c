"""The report of a soak as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, Final

from bench.soak import Sample, Soak, p99
from bench.tables import MB
from fournos.history import offline, plots

_CURVES: Final[tuple[tuple[str, tuple[tuple[str, Callable[[Sample], float]], ...]], ...]] = (
    (
        "End of a run → next job admitted, s, over s",
        (("p50", lambda each: each.p50), ("p99", lambda each: each.p99)),
    ),
    ("Resident memory of the leader, MB", (("RSS", lambda each: each.rss / MB),)),
    ("Open files of the leader", (("files and sockets", lambda each: each.files),)),
    ("Requests of the leader a second", (("requests", lambda each: each.requests),)),
    ("CPU of the leader, % of a core", (("CPU", lambda each: each.cpu),)),
    ("Database of etcd, MB", (("size", lambda each: each.storage / MB),)),
)


def page(soak: Soak, surroundings: Mapping[str, Any]) -> str:
    """Returns the page: what was run and where, what went wrong, and each number over the time."""
    title = f"{soak.minutes:g} minutes of {soak.rate:g} ends a second beside {soak.live} live jobs"
    wrong = {
        "objects made twice": soak.doubles,
        "jobs that did not succeed": soak.failed,
        "ends that the job showed later than 30 s": soak.late,
        "objects without their job": soak.orphans,
    }
    body = [
        offline.table([("condition", "value"), *((key, str(value)) for key, value in surroundings.items())]),
        offline.table(
            [
                ("", "number"),
                ("runs ended", str(soak.ends)),
                ("end → next admitted, p50", f"{median(soak.waits):.2f} s"),
                ("end → next admitted, p99", f"{p99(soak.waits):.2f} s"),
                ("leaders killed", str(len(soak.handovers))),
                *((words, str(len(cases))) for words, cases in wrong.items()),
            ]
        ),
    ]
    beside = [
        (name, [(each.at, each.beside[name] / MB) for each in soak.samples])
        for name in soak.samples[0].beside
    ]
    body.append(plots.curves("Resident memory of the others, MB", beside))
    body += [
        plots.curves(
            words, [(name, [(each.at, take(each)) for each in soak.samples]) for name, take in lines]
        )
        for words, lines in _CURVES
    ]
    if soak.handovers:
        gaps = [(f"{place}. {each.how}", each.gap) for place, each in enumerate(soak.handovers, 1)]
        body.append(plots.bars("Last write of a leader → first of the next, s", gaps))
    for words, cases in wrong.items():
        if cases:
            body += [offline.heading(words), offline.preformatted("\n".join(cases))]
    return offline.document(title, body)
