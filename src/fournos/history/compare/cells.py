"""A comparison as tables of texts, which all formats for people share.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fournos.engine.api.text import escaped_line
from fournos.history.compare.comparison import Cell, Comparison, KpiVerdict, Row
from fournos.history.plots import number

MAX_SHOWN: Final = 80
WARNING: Final = "The runs did not measure the same thing: their fingerprints differ."
NO_VERDICT: Final = "There is no verdict on KPIs of different fingerprints."
NOTHING: Final = "Nothing that is recorded differs between the runs but their results."
WITHHELD: Final = "What differs in specs and provenance is shown to those who may get runs/documents."
ACROSS: Final = "The verdicts below were asked for nevertheless."


def headlines(comparison: Comparison) -> list[str]:
    """Returns the warning above a comparison of different fingerprints; none if the runs are comparable."""
    if comparison.comparable:
        return []
    return [f"{WARNING} {ACROSS if comparison.across else NO_VERDICT}"]


def no_differences(comparison: Comparison) -> str:
    """Returns the text that replaces an empty table of differences."""
    return WITHHELD if comparison.withheld else NOTHING


def notes(comparison: Comparison) -> list[str]:
    """Returns a line for each thing that the comparison could not take into account."""
    unknown = [f"Not recorded: {'; '.join(comparison.not_recorded)}"] if comparison.not_recorded else []
    return [*unknown, *map(str, comparison.left_out)]


def difference_table(comparison: Comparison) -> list[list[str]]:
    """The header and the rows of what differs between the runs."""
    rows = [[one.section.value, one.path, *one.values] for one in comparison.differences]
    table = [["section", "difference", *comparison.names], *rows]
    return [[_cut(cell) for cell in row] for row in table]


def kpi_table(comparison: Comparison) -> list[list[str]]:
    """The header and the rows of the KPIs side by side."""
    header = ["KPI", "unit", "noise"]
    for place, name in enumerate(comparison.names):
        header += [name] if place == 0 else [name, "change", "verdict"]
    return [[_cut(cell) for cell in row] for row in (header, *map(_row, comparison.rows))]


def _row(row: Row) -> list[str]:
    cells = [str(row.key), row.unit, f"±{row.band:.1%}" if row.band is not None else "-"]
    for place, cell in enumerate(row.cells):
        cells.append(number(cell.value))
        if place:
            cells += [change(cell), f"{cell.verdict} ({cell.note})" if cell.note else cell.verdict]
    return cells


def change(cell: Cell) -> str:
    if cell.change is not None:
        return f"{cell.change:+.1%}"
    return "from 0" if cell.value is not None and cell.verdict is not KpiVerdict.NOT_COMPARABLE else "-"


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def summary(comparison: Comparison) -> str:
    """How many KPIs have which verdict, in one line."""
    counts = {
        verdict: len(comparison.of(verdict)) for verdict in KpiVerdict if verdict is not KpiVerdict.REFERENCE
    }
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "no KPI"


def _cut(text: str) -> str:
    line = escaped_line(text)
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"
