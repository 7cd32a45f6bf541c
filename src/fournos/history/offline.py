"""Documents as one HTML file that needs nothing else: no script, no foreign host.  Pure.

Every text is escaped here; the policy in the file forbids scripts and any other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

from fournos.engine.api.text import escaped

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } th, td { border: 1px solid #ccc; padding: .3rem .6rem }
th { background: #f3f3f3; text-align: left } td { overflow-wrap: anywhere }
.warning { border-left: 4px solid #d62728; padding: .5rem 1rem; background: #fdecea }
.worse { color: #b00020; font-weight: bold } .better { color: #1b7a2f; font-weight: bold }
figure { margin: 1.5rem 0 } svg { background: #fff; border: 1px solid #ccc } text { font-size: 12px }
pre { background: #f3f3f3; padding: .6rem 1rem; overflow-x: auto; white-space: pre-wrap }
""".strip()


def document(title: str, body: Iterable[str]) -> str:
    """Returns the whole document; `body` is HTML that the other functions made."""
    shown = text(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{shown}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        f"<h1>{shown}</h1>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def text(value: str) -> str:
    """Returns a text as HTML."""
    return escape(escaped(value))


def heading(value: str, level: int = 2) -> str:
    return f"<h{level}>{text(value)}</h{level}>"


def paragraph(value: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{text(value)}</p>"


def preformatted(value: str) -> str:
    return f"<pre>{text(value)}</pre>"


def table(rows: Sequence[Sequence[str]], kind_of: Callable[[str], str] = lambda cell: "") -> str:
    """Returns a table whose first row is the header; `kind_of` gives the class of a cell."""
    header, *others = rows
    lines = ["<table>", _row(header, "th", lambda cell: "")]
    lines += [_row(row, "td", kind_of) for row in others]
    return "\n".join([*lines, "</table>"])


def _row(row: Sequence[str], tag: str, kind_of: Callable[[str], str]) -> str:
    cells = (f"<{tag}{_class(kind_of(cell))}>{text(cell)}</{tag}>" for cell in row)
    return f"<tr>{''.join(cells)}</tr>"


def _class(kind: str) -> str:
    return f' class="{escape(kind)}"' if kind else ""
