"""The jobs: those that exist and those that only the history has, in one list, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL
from fournos.api.times import parse_time
from fournos.history.records import Run
from fournos.insight.facts import everywhere
from fournos.insight.values import created
from fournos.kube.resource import Obj, uid_of
from fournos.web.recorded_namespaces import recorded_namespaces
from fournos.web.routes import Call, Page
from fournos.web.runs.filters import PHASES, Filters, read
from fournos.web.runs.history_rows import recorded
from fournos.web.runs.parts import Part, part
from fournos.web.runs.rows import Place, merged, newest, place_of, recorded_place

ROWS: Final = 50
"""Rows of a page."""
_FRESH: Final = timedelta(seconds=30)
"""For so long an open tab shows the same runs of the history, unless a live job goes."""
_KEPT: Final = "jobs"


@dataclass(frozen=True, slots=True)
class _Kept:
    """The runs of the history as a live stream has read them."""

    runs: Part[list[Run]]
    at: datetime
    live: frozenset[str]


async def gather(call: Call) -> Mapping[str, Any]:
    filters, after = read(call.query), place_of(call.query.get("after", ""))
    found = await part(everywhere(call.viewer.source, FOURNOS_JOB, call.site.jobs_namespace))
    jobs: Sequence[Obj] = found.value or ()
    live = frozenset(map(uid_of, jobs))
    matching = (job for job in jobs if filters.match(job)) if filters.fields else jobs
    shown = newest(matching, after, ROWS + 1)
    history = await _history(call, filters, after, live, shown)
    rows, following = merged(shown, history.value or (), ROWS)
    return {
        "filters": filters,
        "phases": PHASES,
        "rows": rows,
        "next": filters.address(after=str(following)) if following else "",
        "newest": filters.address() if after else "",
        "live_jobs": found,
        "history": history,
        "ended": TERMINAL,
        "namespaces": len({row.namespace for row in rows}) > 1,
    }


async def _history(
    call: Call, filters: Filters, after: Place | None, live: frozenset[str], shown: Sequence[Obj]
) -> Part[list[Run]]:
    """Reads the runs that only the history has; an open tab reads them seldom."""
    kept: _Kept | None = call.kept.get(_KEPT)
    if kept and call.now - kept.at < _FRESH and kept.live <= live:
        return kept.runs
    oldest = parse_time(created(shown[ROWS])) if len(shown) > ROWS else None
    runs = await part(_recorded(call, filters, after, live, oldest))
    call.kept[_KEPT] = _Kept(runs, call.now, live)
    return runs


async def _recorded(
    call: Call, filters: Filters, after: Place | None, live: frozenset[str], oldest: datetime | None
) -> list[Run]:
    found: list[Run] = []
    for namespace in await recorded_namespaces(call):
        found += await recorded(
            call.viewer.client.history,
            filters,
            namespace=namespace,
            after=after,
            live=live,
            oldest=oldest,
            most=ROWS + 1,
        )
    return sorted(found, key=recorded_place, reverse=True)[: ROWS + 1]


PAGE: Final = Page(
    name="jobs",
    title="Jobs",
    path="/jobs",
    gather=gather,
    watched=(FOURNOS_JOB,),
    shared=False,
    command="fournos list --all-time",
)
