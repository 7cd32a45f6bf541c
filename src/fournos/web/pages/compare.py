"""Runs compared: what differs first, then each KPI within its noise."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from multidict import MultiMapping

from fournos.client.errors import FournosError
from fournos.history.compare.comparison import KpiVerdict, Row
from fournos.history.compare.formats import change, headlines, no_differences, notes, summary
from fournos.web.rights import home
from fournos.web.runs.subject import address
from fournos.web.site import Call, Page

MOST: Final = 12
"""Runs that are compared."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The runs that a page compares, by name or UID."""

    namespace: str
    jobs: tuple[str, ...]

    @property
    def command(self) -> str:
        return shlex.join(["fournos", "compare", "-n", self.namespace, *self.jobs])


def asked(given: Sequence[str], namespace: str) -> Asked:
    """Reads the `job` values of the address: NAMESPACE/JOB, or JOB of the default namespace.

    Raises FournosError.
    """
    pairs = []
    for one in dict.fromkeys(text.strip() for text in given if text.strip()):
        space, slash, job = one.rpartition("/")
        pairs.append((space if slash else namespace, job))
    spaces = {space for space, _ in pairs}
    if len(spaces) > 1:
        text = f"the jobs are of several namespaces: {', '.join(sorted(spaces))}"
        raise FournosError(text, fix="compare jobs of one namespace")
    if len(pairs) > MOST:
        raise FournosError(f"{len(pairs)} jobs are marked", fix=f"compare at most {MOST}")
    return Asked(next(iter(spaces), namespace), tuple(job for _, job in pairs))


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The KPIs, those that changed first."""
    weight = {KpiVerdict.WORSE: 0, KpiVerdict.BETTER: 1, KpiVerdict.CHANGED: 2}
    return sorted(rows, key=lambda row: min((weight.get(cell.verdict, 3) for cell in row.cells), default=3))


# --- the page -------------------------------------------------------------------------------------


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
        "rows": in_order(comparison.rows),
        "change": change,
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
