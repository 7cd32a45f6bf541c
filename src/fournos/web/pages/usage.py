"""Usage: GPU-hours by owner, cluster, project and GPU type over a period, and unused locks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from fournos.api.kinds import Resource
from fournos.client.errors import NoHistoryError, NotAllowedError
from fournos.history.usage import Usage, added, as_csv, together
from fournos.insight import fleet
from fournos.web.charts import Plot, PlotLine
from fournos.web.rights import recorded_namespaces
from fournos.web.site import Call, Page

OWNERS: Final = 12
"""Owners with a bar of their own, those with most GPU-hours; the others share one."""
_NONE: Final = "none"
PERIODS: Final = (
    ("1d", "One day", 1),
    ("7d", "7 days", 7),
    ("30d", "30 days", 30),
    ("90d", "90 days", 90),
)
"""Value in the address, title and days."""
RESOURCE: Final = Resource("history.fournos.dev", "v1", "Usage", "usage")
"""What rules of the history's API name."""
_FRESH: Final = 60.0


@dataclass(frozen=True, slots=True)
class UsageRead:
    usage: Usage
    stored: bool
    """False: there is no history, or it may not be read."""
    namespaces: tuple[str, ...] = ()
    """Those of the history that were added up; an empty name stands for all."""


def by_owner(used: Usage) -> Plot | None:
    """GPU-hours by owner; None if none were used."""
    bars = [(share.name or _NONE, share.hours) for share in used.owners[:OWNERS]]
    if others := used.owners[OWNERS:]:
        bars.append((f"{len(others)} others", sum(share.hours for share in others)))
    if not any(hours for _, hours in bars):
        return None
    line = PlotLine("GPU-hours", [(float(x), hours) for x, (_, hours) in enumerate(bars)])
    labels = [name for name, _ in bars]
    return Plot("GPU-hours, by owner", [line], y_title="GPU-hours", labels=labels, bars=True)


async def gather(call: Call) -> Mapping[str, Any]:
    wanted = call.query.get("period", "7d")
    name, _, days = next((one for one in PERIODS if one[0] == wanted), PERIODS[1])
    since = call.now - timedelta(days=days)

    async def read() -> UsageRead:
        try:
            return await _stored(call, since)
        except (NoHistoryError, NotAllowedError):
            return UsageRead(added(()), stored=False)

    read_usage = await call.site.memo.get(("usage", call.viewer.key, name), _FRESH, read)
    site = call.site
    now = await fleet.read(call.viewer.source, site.jobs_namespace, site.clusters_namespace, call.now, most=0)
    total = read_usage.usage
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
        "csv": "data:text/csv;charset=utf-8," + quote(as_csv(total)) if total.runs else "",
        "idle": fleet.idle_locks(now.clusters),
        "command": _command(*read_usage.namespaces, days) if len(read_usage.namespaces) == 1 else "",
    }


async def _stored(call: Call, since: datetime) -> UsageRead:
    history = call.viewer.client.history
    namespaces = tuple(await recorded_namespaces(call, RESOURCE))
    rows = [
        await history.usage(since=since, everywhere=not namespace, namespace=namespace or None)
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
