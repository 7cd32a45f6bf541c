"""A comparison as one HTML file that needs nothing else: no script, no foreign host.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from fournos.history.compare.cells import difference_table, headlines, kpi_table, number, summary
from fournos.history.compare.comparison import Comparison, Row, Verdict

_WIDTH: Final = 640
_HEIGHT: Final = 240
_MARGIN: Final = 44
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#17becf")
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } th, td { border: 1px solid #ccc; padding: .3rem .6rem }
th { background: #f3f3f3; text-align: left } td { overflow-wrap: anywhere }
.warning { border-left: 4px solid #d62728; padding: .5rem 1rem; background: #fdecea }
.worse { color: #b00020; font-weight: bold } .better { color: #1b7a2f; font-weight: bold }
figure { margin: 1.5rem 0 } svg { background: #fff; border: 1px solid #ccc } text { font-size: 12px }
""".strip()


def as_html(comparison: Comparison) -> str:
    """The whole document.  All texts are escaped; the policy in it forbids scripts and any other file."""
    title = escape("Comparison of " + ", ".join(comparison.names))
    body = [f"<h1>{title}</h1>"]
    body += [f'<p class="warning">{escape(line)}</p>' for line in headlines(comparison)]
    body.append("<h2>What differs</h2>")
    if comparison.differences:
        body.append(_table(difference_table(comparison)))
    else:
        body.append("<p>Nothing differs between the runs but their results.</p>")
    body += ["<h2>Results</h2>", f"<p>{escape(summary(comparison))}</p>", _table(kpi_table(comparison))]
    body += [_figure(row, comparison.names) for row in comparison.rows if row.curves]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _table(table: Sequence[Sequence[str]]) -> str:
    header, *rows = table
    lines = ["<table>", _cells(header, "th")]
    lines += [_cells(row, "td") for row in rows]
    return "\n".join([*lines, "</table>"])


def _cells(row: Sequence[str], tag: str) -> str:
    parts = []
    for cell in row:
        verdict = str(cell).partition(" (")[0]
        style = f' class="{verdict}"' if tag == "td" and verdict in (Verdict.BETTER, Verdict.WORSE) else ""
        parts.append(f"<{tag}{style}>{escape(cell)}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def _figure(row: Row, names: Sequence[str]) -> str:
    """The curves of a KPI as SVG, with a legend."""
    points = [point for curve in row.curves for point in curve]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(0.0, *(y for _, y in points)), max(y for _, y in points)

    def place(x: float, y: float) -> str:
        across = (x - left) / (right - left) if right > left else 0.5
        up = (y - low) / (high - low) if high > low else 0.5
        return (
            f"{_MARGIN + across * (_WIDTH - 2 * _MARGIN):.1f},"
            f"{_HEIGHT - _MARGIN - up * (_HEIGHT - 2 * _MARGIN):.1f}"
        )

    lines, legend = [], []
    for index, (name, curve) in enumerate(zip(names, row.curves, strict=True)):
        colour = _COLOURS[index % len(_COLOURS)]
        path = " ".join(place(x, y) for x, y in curve)
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        legend.append(f'<span style="color:{colour}">&#9632;</span> {escape(name)}')
    axes = (
        f'<text x="{_MARGIN}" y="{_HEIGHT - 12}">{number(left)}</text>'
        f'<text x="{_WIDTH - _MARGIN}" y="{_HEIGHT - 12}" text-anchor="end">{number(right)}</text>'
        f'<text x="4" y="{_HEIGHT - _MARGIN}">{number(low)}</text>'
        f'<text x="4" y="{_MARGIN}">{number(high)}</text>'
    )
    title = escape(f"{row.key}, {row.unit}" if row.unit else str(row.key))
    return (
        f"<figure><figcaption>{title}<br>{' &#160; '.join(legend)}</figcaption>"
        f'<svg role="img" aria-label="{title}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(lines)}{axes}</svg></figure>'
    )
