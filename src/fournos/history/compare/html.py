"""A comparison as one HTML file that needs nothing else.  Pure."""

from __future__ import annotations

from fournos.history import offline, plots
from fournos.history.compare.cells import difference_table, headlines, kpi_table, no_differences, summary
from fournos.history.compare.comparison import Comparison, Verdict


def as_html(comparison: Comparison) -> str:
    """The whole document."""
    body = [offline.paragraph(line, "warning") for line in headlines(comparison)]
    body.append(offline.heading("What differs"))
    if comparison.differences:
        body.append(offline.table(difference_table(comparison)))
    else:
        body.append(offline.paragraph(no_differences(comparison)))
    body += [
        offline.heading("Results"),
        offline.paragraph(summary(comparison)),
        offline.table(kpi_table(comparison), _verdict),
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


def _verdict(cell: str) -> str:
    verdict = cell.partition(" (")[0]
    return verdict if verdict in (Verdict.BETTER, Verdict.WORSE) else ""
