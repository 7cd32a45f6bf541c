"""Usage: GPU-hours by owner, cluster, project and GPU type over a period, and unused locks."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import NoHistoryError, NotAllowedError
from fournos.engine.kube.resource import Resource
from fournos.history.usage import Share, Usage, UsagePart, joined, of_job, together, usage
from fournos.history.waited import ALL
from fournos.insight import fleet
from fournos.insight.facts import everywhere
from fournos.insight.values import short
from fournos.web.charts import Plot, PlotLine, sparkline
from fournos.web.rights import recorded_namespaces
from fournos.web.site import Call, Page

OWNERS: Final = 6
"""Owners with bars of their own, those with most GPU-hours; the others share one."""
COLUMNS: Final = 10
"""Times of a cluster that are shown side by side."""
SHADES: Final = 5
"""Shades of the style sheet; 0 is none."""
_NONE: Final = "none"
_TOGETHER: Final = "all causes"


@dataclass(frozen=True, slots=True)
class HeatRow:
    """The cells of a cluster, the oldest first."""

    name: str
    cells: Sequence[tuple[float, int]]
    """GPUs on average, and their shade."""


@dataclass(frozen=True, slots=True)
class WaitRow:
    """How long runs waited for one cause."""

    cause: str
    runs: int
    half: str
    """Within this time half of them went on."""
    most: str
    """Within this time nine of ten went on."""
    line: Markup
    """The latter over time."""


def begins(parts: Sequence[UsagePart]) -> list[str]:
    """When each part begins: the hour where parts are shorter than a day, else the day."""
    by_hour = bool(parts) and parts[0].until - parts[0].since < timedelta(days=1)
    return [f"{each.since:{'%d %b %H:%M' if by_hour else '%d %b'}}" for each in parts]


def by_owner(used: Usage) -> Plot | None:
    """GPUs by owner over time; None without a part in which any was used."""
    largest = [share.name for share in used.owners[:OWNERS]]
    others = [share.name for share in used.owners[OWNERS:]]
    stacks: list[tuple[str, tuple[str, ...]]] = [(name or _NONE, (name,)) for name in largest]
    stacks += [(f"{len(others)} others", tuple(others))] if others else []
    lines = [
        PlotLine(title, [(float(x), _gpus(part, part.owners, names)) for x, part in enumerate(used.parts)])
        for title, names in stacks
    ]
    if used.locks:
        held = [(float(x), part.gpus(part.locks)) for x, part in enumerate(used.parts)]
        lines.append(PlotLine("locks", held, hatched=True))
    if not used.parts or not any(y for line in lines for _, y in line.points):
        return None
    return Plot("GPUs in use, by owner", lines, y_title="GPUs", labels=begins(used.parts), bars=True)


def by_cluster(used: Usage) -> tuple[list[str], list[HeatRow]]:
    """The begin of each column, and one row a cluster, that with most GPU-hours first."""
    number = len(used.parts)
    size = next((size for size in range(1, number) if number % size == 0 and number <= COLUMNS * size), 1)
    parts = [joined(used.parts[first : first + size]) for first in range(0, number, size)]
    rows = {
        share.name: [_gpus(part, part.clusters, (share.name,)) for part in parts] for share in used.clusters
    }
    most = max((gpus for row in rows.values() for gpus in row), default=0.0)
    heat = [HeatRow(name, [(gpus, _shade(gpus, most)) for gpus in row]) for name, row in rows.items()]
    return begins(parts), heat


def waiting(used: Usage) -> tuple[Plot | None, list[WaitRow]]:
    """How long runs waited before they began: over time, and for each cause."""
    lines = []
    for title, share in (("half of the runs", 0.5), ("nine of ten runs", 0.9)):
        minutes = enumerate(_minutes(used, ALL, share))
        lines.append(PlotLine(title, [(float(x), y) for x, y in minutes if y]))
    plot = Plot("Waiting before the run", lines, y_title="minutes", labels=begins(used.parts), dots=True)
    rows = [
        WaitRow(
            waited.cause or _TOGETHER,
            waited.runs,
            _length(waited.within(0.5)),
            _length(waited.within(0.9)),
            sparkline(waited.cause or _TOGETHER, _minutes(used, waited.cause, 0.9), "minutes"),
        )
        for waited in used.waits
    ]
    return (plot if rows and used.parts else None), rows


def _minutes(used: Usage, cause: str, share: float) -> list[float]:
    """For each part the minutes within which this share of its runs waited no longer; 0 where none waited."""
    by_part = ({waited.cause: waited for waited in part.waits}.get(cause) for part in used.parts)
    return [waited.within(share) / 60 if waited else 0.0 for waited in by_part]


def _length(seconds: float) -> str:
    return short(timedelta(seconds=seconds))


def _gpus(part: UsagePart, shares: Iterable[Share], names: Sequence[str]) -> float:
    return part.gpus(share for share in shares if share.name in names)


def _shade(value: float, most: float) -> int:
    return 0 if value <= 0 else max(1, round(value / most * SHADES))


# --- Usage: GPU-hours by owner, cluster, project and GPU type over a period, and unused locks -------------


PERIODS: Final = (
    ("1d", "One day", 1, 24),
    ("7d", "7 days", 7, 28),
    ("30d", "30 days", 30, 30),
    ("90d", "90 days", 90, 30),
)
"""Value in the address, title, days, and parts of the plots."""
RESOURCE: Final = Resource("history.fournos.dev", "v1", "Usage", "usage")
"""What rules of the history's API name."""
_FRESH: Final = 60.0


@dataclass(frozen=True, slots=True)
class UsageRead:
    usage: Usage
    stored: bool
    """It comes from the history; else only jobs that are not deleted are counted."""
    namespaces: tuple[str, ...] = ()
    """Those of the history that were added up; an empty name stands for all."""


async def gather(call: Call) -> Mapping[str, Any]:
    wanted = call.query.get("period", "7d")
    name, _, days, parts = next((one for one in PERIODS if one[0] == wanted), PERIODS[1])
    since = call.now - timedelta(days=days)

    async def read() -> UsageRead:
        try:
            return await _stored(call, since, parts)
        except (NoHistoryError, NotAllowedError):
            jobs = await everywhere(call.viewer.source, FOURNOS_JOB, call.site.jobs_namespace)
            return UsageRead(
                usage(filter(None, map(of_job, jobs)), since, call.now, parts=parts), stored=False
            )

    read_usage = await call.site.memo.get(("usage", call.viewer.key, name), _FRESH, read)
    site = call.site
    now = await fleet.read(call.viewer.source, site.jobs_namespace, site.clusters_namespace, call.now, most=0)
    total = read_usage.usage
    begins, heat = by_cluster(total)
    waits, causes = waiting(total)
    return {
        "periods": PERIODS,
        "period": name,
        "found": read_usage,
        "usage": total,
        "gpus_total": sum(gpu.total for card in now.clusters for gpu in card.gpus),
        "days": days,
        "tables": (
            ("Owner", total.owners),
            ("Cluster", total.clusters),
            ("Project", total.projects),
            ("GPU type", total.gpu_types),
            *((("Lock holder", total.locks),) if total.locks else ()),
        ),
        "owners": by_owner(total),
        "begins": begins,
        "heat": heat,
        "waits": waits,
        "causes": causes,
        "idle": fleet.idle_locks(now.clusters),
        "command": _command(*read_usage.namespaces, days) if len(read_usage.namespaces) == 1 else "",
    }


async def _stored(call: Call, since: datetime, parts: int) -> UsageRead:
    history = call.viewer.client.history
    namespaces = tuple(await recorded_namespaces(call, RESOURCE))
    rows = [
        await history.usage(since=since, parts=parts, everywhere=not namespace, namespace=namespace or None)
        for namespace in namespaces
    ]
    return UsageRead(together(rows), stored=True, namespaces=namespaces)


def _command(namespace: str, days: int) -> str:
    where = f"-n {shlex.quote(namespace)}" if namespace else "-A"
    return f"fournos usage {where} --since {days}d"


PAGE: Final = Page(
    name="usage",
    title="Usage",
    path="/usage",
    gather=gather,
    shared=False,
)
