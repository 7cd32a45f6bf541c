"""Usage: GPU-hours by owner, cluster, project and GPU type over a period, and unused locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import NoHistoryError, NotAllowedError
from fournos.history.usage import Use, of_job, of_run, usage
from fournos.insight import fleet
from fournos.insight.facts import everywhere
from fournos.web.recorded_namespaces import recorded_namespaces
from fournos.web.routes import Call, Page

PERIODS: Final = (("1d", "One day", 1), ("7d", "7 days", 7), ("30d", "30 days", 30), ("90d", "90 days", 90))
"""Value in the address, title, days."""
MOST: Final = 5000
"""The newest runs of a period that are counted."""
_LONGEST: Final = timedelta(days=7)
"""Runs that were submitted so long before the period are read, because they may have run in it."""
_FRESH: Final = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    uses: tuple[Use, ...]
    stored: bool
    """They come from the history; else only jobs that are not deleted are counted."""
    cut: bool
    """There are more runs than were read."""


async def gather(call: Call) -> Mapping[str, Any]:
    wanted = call.query.get("period", "7d")
    name, _, days = next((one for one in PERIODS if one[0] == wanted), PERIODS[1])
    since = call.now - timedelta(days=days)

    async def read() -> Read:
        try:
            return await _stored(call, since)
        except (NoHistoryError, NotAllowedError):
            jobs = await everywhere(call.viewer.source, FOURNOS_JOB, call.site.jobs_namespace)
            return Read(tuple(filter(None, map(of_job, jobs))), stored=False, cut=False)

    found = await call.site.memo.get(("usage", call.viewer.csrf, name), _FRESH, read)
    site = call.site
    now = await fleet.read(call.viewer.source, site.jobs_namespace, site.clusters_namespace, call.now)
    total = usage(found.uses, since, call.now)
    return {
        "periods": PERIODS,
        "period": name,
        "found": found,
        "most": MOST,
        "usage": total,
        "gpus_total": sum(gpu.total for card in now.clusters for gpu in card.gpus),
        "days": days,
        "tables": (
            ("Owner", total.owners),
            ("Cluster", total.clusters),
            ("Project", total.projects),
            ("GPU type", total.gpu_types),
        ),
        "idle": fleet.idle_locks(now.clusters),
    }


async def _stored(call: Call, since: datetime) -> Read:
    client, uses, read = call.viewer.client, [], 0
    for namespace in await recorded_namespaces(call):
        runs = client.history.runs(
            everywhere=not namespace,
            namespace=namespace or None,
            kind=FOURNOS_JOB.kind,
            since=since - _LONGEST,
            limit=max(1, MOST + 1 - read),
        )
        async for run in runs:
            read += 1
            if (use := of_run(run)) is not None:
                uses.append(use)
    return Read(tuple(uses), stored=True, cut=read > MOST)


PAGE: Final = Page(
    name="usage",
    title="Usage",
    path="/usage",
    gather=gather,
    shared=False,
    command="fournos list --all-time",
)
