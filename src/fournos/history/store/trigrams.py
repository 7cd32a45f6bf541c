"""The index of the trigrams of names: it finds the runs with a text, without reading all names.  Pure.

SQLite has a table of FTS5, which triggers keep as `runs.search` is; PostgreSQL has an index of pg_trgm.
Migration 0009 makes them.  A database that could not make its own has none, and all names are compared.

The index is asked for those trigrams of a text that few names have, and their names are compared with the
text: what it would cost to find the whole text is bounded by nothing but the number of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    column,
    func,
    literal_column,
    select,
    table,
    tablesample,
)

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
RARE: Final = 8_000
"""More names do not have a trigram that leads to a text: reading so many entries takes half a millisecond."""
_ASKED: Final = 8
"""Trigrams of one text that are asked for at most."""
_USED: Final = 4
"""Rare trigrams that lead to a text: more of them leave hardly fewer names."""
_BLOCKS: Final = 32
"""Blocks of PostgreSQL's table from which it estimates how many names have a trigram: some hundred names."""
_FTS: Final = table(NAME, column("rowid"), column("search"))
_USABLE: Final = {
    "sqlite": re.compile(r"(?=(.{3}))", re.DOTALL),
    # pg_trgm takes letters and digits only; which letters beyond ASCII depends on the locale.
    "postgresql": re.compile(r"(?=([0-9a-z]{3}))"),
}
"""Dialect → the trigrams of which the index is of use."""


def of(words: str, dialect: str) -> tuple[str, ...]:
    """Returns trigrams of a text, from all over it; none if the index does not find this text."""
    trigrams = tuple(dict.fromkeys(_USABLE[dialect].findall(folded(words))))
    if len(trigrams) <= _ASKED:
        return trigrams
    last = len(trigrams) - 1
    return tuple(trigrams[place * last // (_ASKED - 1)] for place in range(_ASKED))


def numbers(asked: Sequence[str], dialect: str) -> Subquery:
    """Returns how many names have each of these trigrams, as rows with `place` and `number`.

    SQLite counts up to `RARE`; PostgreSQL, which would read all of them before the first, has an estimate.
    """
    return _estimated(asked) if dialect == "postgresql" else _counted(asked)


def _counted(asked: Sequence[str]) -> Subquery:
    listed = func.json_each(orjson.dumps(list(map(_quoted, asked))).decode()).table_valued("key", "value")
    found = select(_FTS.c.rowid).where(_FTS.c.search.match(listed.c.value)).limit(RARE).correlate(listed)
    number = select(func.count()).select_from(found.subquery()).scalar_subquery()
    return select(listed.c.key.label("place"), number.label("number")).subquery()


def _estimated(asked: Sequence[str]) -> Subquery:
    blocks = func.greatest(func.pg_relation_size(literal_column(f"'{runs.name}'")) / 8192, 1)
    share = func.least(100.0, 100.0 * _BLOCKS / blocks)
    sample = tablesample(runs, func.system(share), seed=literal_column("0"))
    listed = func.unnest(func.string_to_array(" ".join(asked), " ")).table_valued(
        "value", with_ordinality="place"
    )
    each = listed.render_derived()
    number = func.count(sample.c.id) * func.greatest(1.0, 1.0 * blocks / _BLOCKS)
    return (
        select(each.c.place, number.label("number"))
        .select_from(each.outerjoin(sample, _has(sample.c.search, each.c.value)))
        .group_by(each.c.place)
        .subquery()
    )


def rare(asked: Sequence[str], counts: Sequence[float]) -> tuple[str, ...]:
    """Returns those trigrams that few names have, the rarest first."""
    ordered = sorted(zip(counts, asked, strict=True))
    return tuple(each for count, each in ordered if count < RARE)[:_USED]


def keys(asked: Sequence[str], dialect: str) -> Select[Any]:
    """Returns the statement of the keys of the runs with all these trigrams, in no particular order."""
    if dialect == "postgresql":
        return select(runs.c.id).where(*(contains(runs.c.search, each) for each in asked))
    return _found(asked)


def scan(words: str, asked: Sequence[str], dialect: str) -> Subquery:
    """Returns the times and keys of the runs with a text, read by the index, whatever is asked of them."""
    statement = select(runs.c.submitted_at, runs.c.id)
    if dialect == "sqlite":
        statement = statement.where(contains(runs.c.search, words))
        statement = statement.join(_FTS, _FTS.c.rowid == runs.c.id).where(_FTS.c.search.match(_all(asked)))
    else:
        # With LIKE the index would be asked for the trigrams of the whole text.
        statement = statement.where(_has(runs.c.search, folded(words)))
        statement = statement.where(*(contains(runs.c.search, each) for each in asked))
    # A subquery with an OFFSET is read by itself: the order of the page cannot choose another index.
    return statement.offset(0).subquery("found")


def contains(names: ColumnElement[Any], words: str) -> ColumnElement[bool]:
    """Returns the condition that folded names have a text."""
    return names.contains(folded(words), autoescape=True)


def matches(names: ColumnElement[Any], words: str, dialect: str) -> ColumnElement[bool]:
    """Returns the same condition, as it is tested fastest on each name."""
    return _has(names, folded(words)) if dialect == "postgresql" else contains(names, words)


def _has(names: ColumnElement[Any], words: Any) -> ColumnElement[bool]:
    return func.strpos(names, words) > 0  # a third faster than LIKE


def _found(asked: Iterable[str]) -> Select[Any]:
    return select(_FTS.c.rowid).where(_FTS.c.search.match(_all(asked)))


def _all(asked: Iterable[str]) -> str:
    """Returns the search of FTS5 for all of these trigrams."""
    return " AND ".join(map(_quoted, asked))


def _quoted(trigram: str) -> str:
    doubled = trigram.replace('"', '""')
    return f'"{doubled}"'
