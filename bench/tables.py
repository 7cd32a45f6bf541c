"""How a result is printed."""

from __future__ import annotations

from typing import Final

from rich.table import Table

MB: Final = 1_000_000


def table(title: str, *headings: str, left: int = 0) -> Table:
    """Returns an empty table, whose first `left` columns have texts and the others numbers."""
    empty = Table(title=title, title_justify="left")
    for column, heading in enumerate(headings):
        empty.add_column(heading, justify="left" if column < left else "right")
    return empty
