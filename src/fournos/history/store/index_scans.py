"""The filters of a query as scans of indexes, and as conditions on the entries of a scan.  Pure.

An entry is the time and the key of a run; the entries of a scan are in the order of a page.  A condition
looks an entry up in the index of another filter.  The entries are in the order of that index, too, so that
neither reads rows that are no part of the page.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, Select, and_, func, literal, or_, select, true, tuple_

from fournos.history.records import Query
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.schema import FILTERS, ID, Time, in_the_row, labels, microseconds, runs, time_of
from fournos.history.store.text import folded, indexed

TEXT: Final = "text"
LABELS: Final = "labels"
TIME: Final = "time"
"""The scan of all runs, for filters that cannot lead."""
MERGED: Final = 16
"""The maximum number of values of a filter that leads.  With more values each row is tested instead."""
_FIRST: Final = ("uid", "fingerprints", "name", LABELS)
_ORDER: Final = (*_FIRST, *(name for name in FILTERS if name not in _FIRST))
"""The filters that can lead, the one that usually leaves the fewest runs first."""
_RUN: Final = runs.alias("leading")
_LABEL: Final = labels.alias("leading")


@dataclass(frozen=True, slots=True)
class IndexScan:
    """A scan of the entries of an index that have one value."""

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


class QueryFilters:
    """The filters of a query as scans and as conditions."""

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
    def condition_count(self) -> int:
        """The number of conditions of the query, without those on time."""
        return len(self._values) + len(self._query.labels) + bool(self._query.text)

    def leading(self) -> list[str]:
        """Returns the filters that can lead, the one that usually leaves the fewest runs first."""
        return [name for name in _ORDER if self._can_lead(name)]

    def _can_lead(self, name: str) -> bool:
        if name == LABELS:
            return bool(self._query.labels)
        return 0 < len(self._values.get(name, ())) <= MERGED

    def scans(self, name: str) -> Iterator[IndexScan]:
        """Yields the scans of a filter, one for each of its values."""
        if name == LABELS:
            label, value = min(self._query.labels.items())
            time, number = _LABEL.c.submitted_at, _LABEL.c.run_id
            mine = (_LABEL.c.name == indexed(label), _LABEL.c.value == indexed(value))
            yield IndexScan(time, number, (*mine, *self._window(time, number)))
            return
        bounds = tuple(self._window(_RUN.c.submitted_at, _RUN.c.id))
        if name in (TEXT, TIME):
            yield IndexScan(_RUN.c.submitted_at, _RUN.c.id, bounds)
            return
        for value in self._values[name]:
            equal = _RUN.c[FILTERS[name].name] == value
            yield IndexScan(_RUN.c.submitted_at, _RUN.c.id, (equal, *bounds))

    def key_statements(self, name: str) -> Iterator[Select[Any]]:
        """Yields the statements of the keys in a filter's scans."""
        for scan in self.scans(name):
            yield select(scan.number).where(*scan.conditions)

    def conditions(self, scan: IndexScan, leading: str) -> Iterator[ColumnElement[bool]]:
        """Yields the conditions of the other filters on each entry of the scan."""
        for filter_, values in self._values.items():
            if filter_ != leading:
                yield self._has_value(scan, FILTERS[filter_].name, values)
        ordered = sorted(self._query.labels.items())
        for name, value in ordered[1:] if leading == LABELS else ordered:
            row = labels.alias()
            equal = and_(row.c.name == indexed(name), row.c.value == indexed(value))
            yield self._exists(row, equal, self._same(scan, row.c.submitted_at, row.c.run_id))
        if leading == TEXT:
            yield self._matches(_RUN.c.search)
        elif self._query.text:
            row = runs.alias()
            same = self._same(scan, row.c.submitted_at, row.c.id)
            yield self._exists(row, self._matches(row.c.search), same)

    def _has_value(self, scan: IndexScan, name: str, values: tuple[str, ...]) -> ColumnElement[bool]:
        row = runs.alias()
        if len(values) > MERGED:
            return self._exists(
                row, in_the_row(row.c[name], self._dialect).in_(values), row.c.id == scan.number
            )
        same = self._same(scan, row.c.submitted_at, row.c.id)
        return or_(*(self._exists(row, row.c[name] == value, same) for value in values))

    def _exists(
        self, row: FromClause, condition: ColumnElement[bool], same: ColumnElement[bool]
    ) -> ColumnElement[bool]:
        """Returns the condition that there is such a row, looked up for each entry.

        PostgreSQL would turn EXISTS into a join of its choice, which may read all of that index.
        """
        exists: Select[Any] = select(true()).select_from(row).where(condition, same)
        return exists.limit(1).scalar_subquery()

    def _same(
        self, scan: IndexScan, time: ColumnElement[Any], number: ColumnElement[Any]
    ) -> ColumnElement[bool]:
        """Returns the condition that a row of an index is that of the entry.

        SQLite would look up an equal key in the table, row by row; a range of keys is looked up in the index.
        """
        if self._dialect == "sqlite":
            return and_(time == scan.time, number.between(scan.number, scan.number))
        return and_(time == scan.time, number == scan.number)

    def _matches(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        words = folded(self._query.text)
        if self._dialect == "postgresql":
            return func.strpos(column, words) > 0  # a third faster than LIKE
        return column.contains(words, autoescape=True)

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
    values: dict[str, tuple[str, ...]] = {}
    for name in FILTERS:
        value = getattr(query, name)
        given = ((value,) if value else ()) if isinstance(value, str) else value or ()
        if distinct := tuple(dict.fromkeys(indexed(each) for each in given)):
            values[name] = distinct
    return values
