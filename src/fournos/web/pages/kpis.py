"""KPIs of many runs, by fields of theirs: a matrix as a heat map, a KPI by version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.api.phase import Phase
from fournos.history.results.models import RunValues
from fournos.web.recorded_namespaces import RUNS as RECORDED
from fournos.web.recorded_namespaces import home
from fournos.web.routes import Call, Page
from fournos.web.runs.filters import Filters, read
from fournos.web.runs.kpi_groups import PATHS, groupings, samples, table
from fournos.web.runs.parts import part

RUNS: Final = 200
"""The newest runs that are read."""
_CHOSEN: Final = ("fingerprint", "namespace", "kpi", "by", "across")
"""The choices of the form, besides the filters of the list of jobs."""


async def gather(call: Call) -> Mapping[str, Any]:
    filters = read(call.query)
    asked = {name: call.query.get(name, "").strip()[:300] for name in _CHOSEN}
    namespace = asked["namespace"] or await home(call)
    may_read = await call.viewer.rights.may("get", RECORDED, namespace, subresource="documents")
    runs = await part(_read(call, filters, namespace, asked["fingerprint"], PATHS if may_read else ()))
    values = samples(runs.value or ())
    kpis = sorted({sample.kpi for sample in values})
    kpi = asked["kpi"] if asked["kpi"] in kpis else next(iter(kpis), "")
    values = [sample for sample in values if sample.kpi == kpi]
    fields = groupings(values)
    by = asked["by"] if asked["by"] in fields else next(iter(fields), "")
    across = asked["across"] if asked["across"] in fields and asked["across"] != by else ""
    if "across" not in call.query and not asked["by"]:  # a matrix with two axes shows both
        across = next((name for name in fields if name != by and name.startswith(PATHS)), "")
    given = {**filters.fields, "phase": "", "kpi": "", **{name: asked[name] for name in _CHOSEN[:2]}}
    return {
        "filters": filters,
        "given": {name: value for name, value in given.items() if value},
        "runs": runs,
        "number": len(runs.value or ()),
        "most": RUNS,
        "kpis": kpis,
        "kpi": kpi,
        "fields": fields,
        "by": by,
        "across": across,
        "table": table(values, by, across) if by else None,
        "values": len(values),
        "may_read": may_read,
    }


async def _read(
    call: Call, filters: Filters, namespace: str, fingerprint: str, by: tuple[str, ...]
) -> list[RunValues]:
    runs = call.viewer.client.history.values(
        by=by,
        limit=RUNS,
        namespace=namespace,
        phase=Phase.SUCCEEDED.value,
        fingerprint=fingerprint or (),
        since=filters.begin,
        until=filters.end,
        **filters.recorded,
    )
    return [run async for run in runs]


PAGE: Final = Page(
    name="kpis",
    title="KPIs",
    path="/kpis",
    gather=gather,
    in_nav=False,
    under="/jobs",
    shared=False,
)
