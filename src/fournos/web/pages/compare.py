"""Runs compared: what differs first, then each KPI within its noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from multidict import MultiMapping

from fournos.history.compare.formats import headlines, no_differences, notes, summary
from fournos.web.recorded_namespaces import home
from fournos.web.routes import Call, Page
from fournos.web.runs.comparing import asked, kpi_rows
from fournos.web.runs.subject import address


async def gather(call: Call) -> Mapping[str, Any]:
    query = call.query
    given = query.getall("job", []) if isinstance(query, MultiMapping) else []
    if query.get("order") == "newest":  # the marks of the list of jobs: the oldest run is the reference
        given = given[::-1]
    client = call.viewer.client
    compared, across = asked(given, await home(call)), query.get("across") == "yes"
    if len(compared.jobs) < 2:
        return {"wanted": compared, "found": None, "given": [*given, "", ""][:2], "across": across}
    first, *others = compared.jobs
    comparison = await client.history.compare(first, *others, across=across, namespace=compared.namespace)
    links = [
        address(compared.namespace, name, uid=job if job != name else "")
        for name, job in zip(comparison.names, compared.jobs, strict=True)
    ]
    return {
        "wanted": compared,
        "across": across,
        "found": comparison,
        "runs": list(zip(comparison.names, links, strict=True)),
        "headlines": headlines(comparison),
        "nothing": no_differences(comparison),
        "notes": notes(comparison),
        "summary": summary(comparison),
        "rows": kpi_rows(comparison),
    }


PAGE: Final = Page(
    name="compare",
    title="Compare",
    path="/compare",
    gather=gather,
    in_nav=False,
    under="/jobs",
    shared=False,
)
