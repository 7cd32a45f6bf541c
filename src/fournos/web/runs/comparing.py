"""A comparison of runs as tables.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fournos.client.errors import FournosError
from fournos.history.compare.comparison import Comparison, KpiVerdict, Row
from fournos.history.compare.formats import change
from fournos.insight.values import number
from fournos.web.runs.texts import direction

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


@dataclass(frozen=True, slots=True)
class Value:
    """A cell of the table of KPIs."""

    value: str
    change: str
    verdict: str
    note: str


@dataclass(frozen=True, slots=True)
class KpiRow:
    kpi: str
    labels: str
    unit: str
    better: str
    noise: str
    cells: Sequence[Value]


def kpi_rows(comparison: Comparison) -> list[KpiRow]:
    """The KPIs, those that changed first."""
    weight = {KpiVerdict.WORSE: 0, KpiVerdict.BETTER: 1, KpiVerdict.CHANGED: 2}

    def order(row: Row) -> int:
        return min((weight.get(cell.verdict, 3) for cell in row.cells), default=3)

    return [_kpi_row(row) for row in sorted(comparison.rows, key=order)]


def _kpi_row(row: Row) -> KpiRow:
    return KpiRow(
        row.key.kpi_id,
        ", ".join(f"{name}={value}" for name, value in row.key.labels),
        row.unit,
        direction(row.higher_is_better),
        f"±{row.band:.1%}" if row.band is not None else "",
        [
            Value(number(cell.value), change(cell) if place else "", cell.verdict.value, cell.note)
            for place, cell in enumerate(row.cells)
        ],
    )
