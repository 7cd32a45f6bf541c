"""The filters of a query: each is a list, an index in the order of a page, or a test by another index.  Pure.

An entry of a list is the time and the key of a run.  A test looks it up in the index of another filter: the
entries come in the order of that index, too, so that neither reads rows that are no part of the page.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, Select, and_, literal, or_, select, true, tuple_

from fournos.history.records import Query
from fournos.history.store import trigrams
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.schema import FILTERS, ID, Time, in_the_row, labels, microseconds, runs, time_of
from fournos.history.store.text import indexed

TEXT: Final = "text"
TRIGRAMS: Final = "trigrams"
"""The list of the runs that have the text: it is not in the order of a page."""
LABELS: Final = "labels"
TIME: Final = "time"
"""The list of all runs: filters that cannot lead test it."""
MERGED: Final = 16
"""The maximum number of values of a filter that leads.  With more values each row is tested instead."""
_FIRST: Final = ("uid", "fingerprints", "name", LABELS)
_ORDER: Final = (*_FIRST, *(name for name in FILTERS if name not in _FIRST))
"""The filters that can lead, the one that usually leaves the fewest runs first."""
_RUN: Final = runs.alias("leading")
_LABEL: Final = labels.alias("leading")


@dataclass(frozen=True, slots=True)
class Entries:
    """One list: the entries of an index that have one value."""

    time: ColumnElement[Any]
    number: ColumnElement[Any]
    conditions: tuple[ColumnElement[bool], ...]


def cursor_of(submitted_at: datetime, number: int) -> str:
    """Returns the cursor after the run with this time and this `runs.id`."""
    return base64.urlsafe_b64encode(f"{microseconds(submitted_at)}.{number}".encode()).decode().rstrip("=")


def _position(cursor: str) -> tuple[datetime, int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        submitted_at, number = (int(part) for part in text.split("."))
        position = time_of(submitted_at), number
    except (ValueError, OverflowError, binascii.Error):
        position = None
    if position is None or not 0 <= position[1] < 2**63:
        raise StoreQueryError("cursor: not one that a page of this history had")
    return position


class Lists:
    """The filters of a query as lists and as tests."""

    def __init__(self, query: Query, dialect: str) -> None:
        """Raises StoreQueryError for times or a cursor that are not valid."""
        for bound in (query.since, query.until):
            if bound is not None and bound.tzinfo is None:
                raise StoreQueryError(f"since, until: {bound} has no time zone")
        self._query = query
        self._dialect = dialect
        self._values = _values(query)
        self._after = _position(query.cursor) if query.cursor else None

    @property
    def tests(self) -> int:
        """The number of conditions of the query, without those on time."""
        return len(self._values) + len(self._query.labels) + bool(self._query.text)

    def leading(self) -> list[str]:
        """Returns the filters that can lead, the one that usually leaves the fewest runs first."""
        return [name for name in _ORDER if self._can_lead(name)]

    def _can_lead(self, name: str) -> bool:
        if name == LABELS:
            return bool(self._query.labels)
        return 0 < len(self._values.get(name, ())) <= MERGED

    def entries(self, name: str, rare: Sequence[str] = ()) -> Iterator[Entries]:
        """Yields the lists of a filter, one for each of its values; `rare`: the trigrams of `TRIGRAMS`."""
        if name == LABELS:
            label, value = min(self._query.labels.items())
            time, number = _LABEL.c.submitted_at, _LABEL.c.run_id
            mine = (_LABEL.c.name == indexed(label), _LABEL.c.value == indexed(value))
            yield Entries(time, number, (*mine, *self._window(time, number)))
            return
        if name == TRIGRAMS:
            found = trigrams.entries(self._query.text, rare, self._dialect)
            window = self._window(found.c.submitted_at, found.c.id)
            yield Entries(found.c.submitted_at, found.c.id, tuple(window))
            return
        bounds = tuple(self._window(_RUN.c.submitted_at, _RUN.c.id))
        if name in (TEXT, TIME):
            yield Entries(_RUN.c.submitted_at, _RUN.c.id, bounds)
            return
        for value in self._values[name]:
            equal = _RUN.c[FILTERS[name].name] == value
            yield Entries(_RUN.c.submitted_at, _RUN.c.id, (equal, *bounds))

    def keys(self, name: str) -> Iterator[Select[Any]]:
        """Yields the statements of the keys in a filter's lists."""
        for one in self.entries(name):
            yield select(one.number).where(*one.conditions)

    def named(self, first: int) -> Select[Any]:
        """Returns the statement of what of a page with the text is among so many first names."""
        time, number = _RUN.c.submitted_at, _RUN.c.id
        names = select(_RUN.c.search).where(*self._window(time, number)).limit(first)
        found = names.order_by(time.desc(), number.desc()).subquery()
        return select(literal(1)).where(self._matches(found.c.search)).limit(self._query.limit + 1)

    def tested(self, entries: Entries, leading: str) -> Iterator[ColumnElement[bool]]:
        """Yields what the other filters demand of each entry."""
        for filter_, values in self._values.items():
            if filter_ != leading:
                yield self._has_value(entries, FILTERS[filter_].name, values)
        ordered = sorted(self._query.labels.items())
        for name, value in ordered[1:] if leading == LABELS else ordered:
            row = labels.alias()
            found = and_(row.c.name == indexed(name), row.c.value == indexed(value))
            yield self._found(row, found, self._same(entries, row.c.submitted_at, row.c.run_id))
        if leading == TEXT:
            yield self._matches(_RUN.c.search)
        elif self._query.text and leading != TRIGRAMS:
            row = runs.alias()
            same = self._same(entries, row.c.submitted_at, row.c.id)
            yield self._found(row, self._matches(row.c.search), same)

    def _has_value(self, entries: Entries, name: str, values: tuple[str, ...]) -> ColumnElement[bool]:
        row = runs.alias()
        if len(values) > MERGED:
            return self._found(
                row, in_the_row(row.c[name], self._dialect).in_(values), row.c.id == entries.number
            )
        same = self._same(entries, row.c.submitted_at, row.c.id)
        return or_(*(self._found(row, row.c[name] == value, same) for value in values))

    def _found(
        self, row: FromClause, condition: ColumnElement[bool], same: ColumnElement[bool]
    ) -> ColumnElement[bool]:
        """Returns the condition that there is such a row, looked up for each entry.

        PostgreSQL would turn EXISTS into a join of its choice, which may read all of the other filter's list.
        """
        found: Select[Any] = select(true()).select_from(row).where(condition, same)
        return found.limit(1).scalar_subquery()

    def _same(
        self, entries: Entries, time: ColumnElement[Any], number: ColumnElement[Any]
    ) -> ColumnElement[bool]:
        """Returns the condition that a row of an index is that of the entry.

        SQLite would look up an equal key in the table, row by row; a range of keys is looked up in the index.
        """
        if self._dialect == "sqlite":
            return and_(time == entries.time, number.between(entries.number, entries.number))
        return and_(time == entries.time, number == entries.number)

    def _matches(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        return trigrams.matches(column, self._query.text, self._dialect)

    def _window(self, time: ColumnElement[Any], number: ColumnElement[Any]) -> Iterator[ColumnElement[bool]]:
        """Yields the bounds of the page's order."""
        query = self._query
        if query.since is not None:
            yield time >= query.since
        if query.until is not None:
            yield time < query.until
        if self._after is not None:
            submitted_at, last = self._after
            yield tuple_(time, number) < tuple_(literal(submitted_at, Time()), literal(last, ID))


def _values(query: Query) -> Mapping[str, tuple[str, ...]]:
    """Returns the filters over one column that the query uses, with their values."""
    found: dict[str, tuple[str, ...]] = {}
    for name in FILTERS:
        value = getattr(query, name)
        given = ((value,) if value else ()) if isinstance(value, str) else value or ()
        if kept := tuple(dict.fromkeys(indexed(each) for each in given)):
            found[name] = kept
    return found
