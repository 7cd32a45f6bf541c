"""The index of the trigrams of names: it finds the runs with a text, without reading all names.  Pure.

SQLite has a table of FTS5, which triggers keep as `runs.search` is; PostgreSQL has an index of pg_trgm.
Migration 0009 makes them.  A database that could not make its own has none, and all names are compared.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Subquery, column, func, select, table

from fournos.history.store.schema import runs
from fournos.history.store.text import folded

NAME: Final = "runs_trigrams"
"""The table of SQLite, from which the names of its own tables begin, and the index of PostgreSQL."""
EXISTS: Final = {
    "sqlite": select(func.count()).select_from(table("sqlite_master")).where(column("name") == NAME),
    "postgresql": select(func.count(func.to_regclass(NAME))),
}
"""Dialect → the statement that gives 1 if the database has the index, else 0."""
TIDY: Final = "INSERT INTO runs_trigrams (runs_trigrams) VALUES ('optimize')"
"""Overwrites in SQLite what the index has of names that are gone."""
_FTS: Final = table(NAME, column("rowid"), column("search"))
_USABLE: Final = {
    "sqlite": re.compile(r".{3}", re.DOTALL),
    # pg_trgm takes letters and digits only; which letters beyond ASCII depends on the locale.
    "postgresql": re.compile(r"[0-9a-z]{3}"),
}
"""Dialect → what a text must have for the index to be of use."""


def usable(words: str, dialect: str) -> bool:
    """Returns whether the index finds this text."""
    return _USABLE[dialect].search(folded(words)) is not None


def numbers(words: str, dialect: str) -> Select[Any]:
    """Returns the statement of the keys of the runs with a text, in no particular order."""
    if dialect == "postgresql":
        return select(runs.c.id).where(contains(runs.c.search, words))
    return select(_FTS.c.rowid).where(_FTS.c.search.match(_phrase(words)))


def entries(words: str, dialect: str) -> Subquery:
    """Returns the times and keys of the runs with a text, read by the index, whatever is asked of them."""
    found = select(runs.c.submitted_at, runs.c.id).where(contains(runs.c.search, words))
    if dialect == "sqlite":
        found = found.join(_FTS, _FTS.c.rowid == runs.c.id).where(_FTS.c.search.match(_phrase(words)))
    # A subquery with an OFFSET is read by itself: the order of the page cannot choose another index.
    return found.offset(0).subquery("found")


def contains(names: ColumnElement[Any], words: str) -> ColumnElement[bool]:
    """Returns the condition that folded names have a text."""
    return names.contains(folded(words), autoescape=True)


def _phrase(words: str) -> str:
    quoted = folded(words).replace('"', '""')
    return f'"{quoted}"'
