"""A comparison as text, JSON, CSV, Markdown and HTML.  Pure."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from fournos.engine.api.text import escaped_json
from fournos.history import offline, plots
from fournos.history.compare.cells import (
    aligned,
    difference_table,
    headlines,
    kpi_table,
    no_differences,
    notes,
    summary,
)
from fournos.history.compare.comparison import Comparison, KpiVerdict, Row


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
        "left_out": [asdict(group) for group in comparison.left_out],
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
        **({"curves": [[list(point) for point in curve] for curve in row.curves]} if row.curves else {}),
    }


def as_json(comparison: Comparison) -> str:
    return escaped_json(json.dumps(as_data(comparison), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def as_csv(comparison: Comparison) -> str:
    """One row for each KPI and run, with full precision; curves by their mean height."""
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


def as_html(comparison: Comparison) -> str:
    """The comparison as one document that needs no other file."""
    body = [offline.paragraph(line, "warning") for line in headlines(comparison)]
    body.append(offline.heading("What differs"))
    if comparison.differences:
        body.append(offline.table(difference_table(comparison)))
    else:
        body.append(offline.paragraph(no_differences(comparison)))
    body += map(offline.paragraph, notes(comparison))
    body += [
        offline.heading("Results"),
        offline.paragraph(summary(comparison)),
        offline.table(kpi_table(comparison), _verdict_class),
    ]
    body += [
        plots.curves(
            f"{row.key}, {row.unit}" if row.unit else str(row.key),
            list(zip(comparison.names, row.curves, strict=True)),
        )
        for row in comparison.rows
        if row.curves
    ]
    return offline.document("Comparison of " + ", ".join(comparison.names), body)


def _verdict_class(cell: str) -> str:
    verdict = cell.partition(" (")[0]
    return verdict if verdict in (KpiVerdict.BETTER, KpiVerdict.WORSE) else ""


FORMATS: Final[Mapping[str, Callable[[Comparison], str]]] = {
    "text": as_text,
    "json": as_json,
    "csv": as_csv,
    "md": as_markdown,
    "html": as_html,
}
"""What `fournos compare -o` accepts."""
