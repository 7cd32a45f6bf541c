"""The jobs: those that exist and those that only the history has, in one list, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any, Final

from multidict import MultiMapping

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Obj
from fournos.insight.facts import everywhere
from fournos.insight.snapshots import valued
from fournos.insight.values import created
from fournos.insight.views import BY_UID
from fournos.web.recorded_namespaces import recorded_namespaces
from fournos.web.routes import Call, Page
from fournos.web.runs.comparing import MOST as COMPARED
from fournos.web.runs.filters import PHASES, Filters, read, shortcuts
from fournos.web.runs.history_rows import RecordedRuns, recorded
from fournos.web.runs.kpi_columns import RESULTS, KpiValues, kpi_values
from fournos.web.runs.parts import PagePart, part
from fournos.web.runs.rows import ListRow, RowPlace, merged, newest, place_of, recorded_place

ROWS: Final = 50
"""Rows of a page."""
_LONGEST: Final = 400
"""Characters of a mark."""


async def gather(call: Call) -> Mapping[str, Any]:
    filters, after = read(call.query), place_of(call.query.get("after", ""))
    listed = await part(everywhere(call.viewer.source, FOURNOS_JOB, call.site.jobs_namespace))
    jobs: Sequence[Obj] = listed.value or ()
    live = valued(jobs, BY_UID).keys()
    shown = newest(jobs, filters, after, ROWS + 1)
    oldest = parse_time(created(shown[ROWS])) if len(shown) > ROWS else None
    history = await part(_recorded(call, filters, after, live, oldest))
    runs = history.value or RecordedRuns()
    rows, following = merged(shown, runs.runs, ROWS, runs.complete_from)
    values: PagePart[KpiValues] = PagePart()
    if filters.kpis and rows:
        values = await part(_values(call, filters, rows))
    return {
        "filters": filters,
        "shortcuts": shortcuts(call.viewer.client.owner or "", call.now),
        "phases": PHASES,
        "rows": rows,
        "next": str(following or ""),
        "searched": following.submitted if following and not following.uid else "",
        "newest": after is not None,
        "marked": _marked(call),
        "live_jobs": listed,
        "history": history,
        "values": values,
        "ended": TERMINAL,
        "namespaces": len({row.namespace for row in rows}) > 1,
    }


def _marked(call: Call) -> Sequence[str]:
    """The jobs that are marked for a comparison, on earlier pages of the list, too."""
    query = call.query
    marks = query.getall("job", []) if isinstance(query, MultiMapping) else []
    return tuple(dict.fromkeys(mark[:_LONGEST] for mark in marks))[:COMPARED]


async def _recorded(
    call: Call, filters: Filters, after: RowPlace | None, live: Set[str], oldest: datetime | None
) -> RecordedRuns:
    spaces = await recorded_namespaces(call)
    recorded_by_namespace = await asyncio.gather(
        *(
            recorded(
                call.viewer.client.history,
                filters,
                namespace=namespace,
                after=after,
                live=live,
                oldest=oldest,
                most=ROWS + 1,
            )
            for namespace in spaces
        )
    )
    runs = sorted(
        (run for one in recorded_by_namespace for run in one.runs), key=recorded_place, reverse=True
    )
    return RecordedRuns(runs[: ROWS + 1], max(one.complete_from for one in recorded_by_namespace))


async def _values(call: Call, filters: Filters, rows: Sequence[ListRow]) -> KpiValues:
    """Reads the KPIs of the rows, of which the history has those that are live, too."""
    spaces = await recorded_namespaces(call, RESULTS)
    history = call.viewer.client.history
    found = await asyncio.gather(*(kpi_values(history, filters, rows, space) for space in spaces))
    return {uid: texts for by_uid in found for uid, texts in by_uid.items()}


PAGE: Final = Page(
    name="jobs",
    title="Jobs",
    path="/jobs",
    gather=gather,
    watched=(FOURNOS_JOB,),
    shared=False,
    command="fournos list --all-time{all_jobs}",
)
