"""A comparison as text, JSON, CSV and Markdown.  Pure."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fournos.engine.api.values import escaped_json, escaped_line
from fournos.history.compare.comparison import Cell, Comparison, KpiVerdict, Row
from fournos.insight.values import number

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
    return [f"Not recorded: {'; '.join(comparison.not_recorded)}"] if comparison.not_recorded else []


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


def as_text(comparison: Comparison) -> str:
    lines = headlines(comparison)
    if comparison.differences:
        lines += aligned(difference_table(comparison))
    else:
        lines.append(no_differences(comparison))
    lines += [*notes(comparison), "", *aligned(kpi_table(comparison)), "", summary(comparison)]
    return "\n".join(lines) + "\n"


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Returns the comparison as a JSON value."""
    return {
        "runs": list(comparison.names),
        "comparable": comparison.comparable,
        "across": comparison.across,
        "differences": [
            {"section": difference.section.value, "path": difference.path, "values": list(difference.values)}
            for difference in comparison.differences
        ],
        "withheld": comparison.withheld,
        "not_recorded": list(comparison.not_recorded),
        "kpis": [_row_data(row) for row in comparison.rows],
    }


def _row_data(row: Row) -> dict[str, Any]:
    return {
        "kpi_id": row.key.kpi_id,
        "labels": dict(row.key.labels),
        "unit": row.unit,
        "higher_is_better": row.higher_is_better,
        "noise": row.band,
        "values": [
            {"value": cell.value, "change": cell.change, "verdict": cell.verdict.value, "note": cell.note}
            for cell in row.cells
        ],
    }


def as_json(comparison: Comparison) -> str:
    return escaped_json(json.dumps(as_data(comparison), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def as_csv(comparison: Comparison) -> str:
    """One row for each KPI and run, with full precision: of a curve its mean."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ("run", "kpi_id", "labels", "unit", "value", "change", "noise", "verdict", "note", "comparable")
    )
    for row in comparison.rows:
        labels = ";".join(f"{name}={value}" for name, value in row.key.labels)
        for name, cell in zip(comparison.names, row.cells, strict=True):
            texts = map(_inert, (name, row.key.kpi_id, labels, row.unit))
            verdict = (cell.verdict.value, _inert(cell.note), str(comparison.comparable).lower())
            writer.writerow((*texts, cell.value, cell.change, row.band, *verdict))
    return out.getvalue()


_FORMULA: Final = re.compile(r"\s*[=+\-@\t\r]")


def _inert(text: str) -> str:
    """Returns the text so that a spreadsheet does not run it as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def as_markdown(comparison: Comparison) -> str:
    lines = [f"**{line}**\n" for line in headlines(comparison)]
    if comparison.differences:
        lines += [*_markdown(difference_table(comparison)), ""]
    lines += [f"{_literal(line)}\n" for line in notes(comparison)]
    lines += [*_markdown(kpi_table(comparison)), "", summary(comparison)]
    return "\n".join(lines) + "\n"


def _markdown(table: list[list[str]]) -> list[str]:
    header, *rows = [[_literal(cell) for cell in row] for row in table]
    return ["|".join(["", *row, ""]) for row in (header, ["---"] * len(header), *rows)]


def _literal(cell: str) -> str:
    r"""Escapes what Markdown or HTML in it would interpret."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&])", r"\\\1", cell).replace("\n", " ")


FORMATS: Final[Mapping[str, Callable[[Comparison], str]]] = {
    "text": as_text,
    "json": as_json,
    "csv": as_csv,
    "md": as_markdown,
}
"""By the names that `fournos compare -o` has for them; text without it."""
