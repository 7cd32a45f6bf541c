"""The statement of one page: by an index, in its order, no further than the page goes.  Pure.

A page is read by the index of one filter, the leading one; the other filters are tests of the rows that it
yields.  It is the filter that leaves the fewest runs, which `probe` counts up to a bound where that is not
clear from the names.  Several values of it are read as one ordered list each, and merged: an `IN` would have
to be sorted, however long it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, literal, select, true, tuple_, union_all
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op

from fournos.history.records import PAGE_MAX, Query
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.rows import columns
from fournos.history.store.schema import FILTERS, ID, Time, labels, microseconds, runs, time_of
from fournos.history.store.text import folded, indexed

_MERGED: Final = 16
"""More values than these are tested on the rows in order of time: so many match soon."""
_FIRST: Final = ("uid", "fingerprints", "name", "labels")
_ORDER: Final = (*_FIRST, *(name for name in FILTERS if name not in _FIRST))
"""The filters that can lead, the one that usually leaves the fewest runs first."""
_FEW: Final = frozenset({"uid", "name"})
"""Filters that leave few runs, whatever their value."""
_TEXT: Final = "text"
_LABEL: Final = labels.alias("leading")
_NAMED: Final = runs.alias("leading")
_PROBED: Final = 2_000
"""A filter is counted no further: reading the rows of so many runs takes a few milliseconds."""
_PROBED_WITH_TEXT: Final = 8_000
"""The same beside a text: from here on, comparing all names takes no longer than reading the rows."""


def probe(query: Query, dialect: str) -> tuple[Sequence[str], Select[Any]] | None:
    """Returns the filters of which `chosen` takes the leading one, and the statement of their counts.

    None: there is no choice.
    """
    keys = _Keys(query, dialect)
    leading = keys.leading()
    if not leading or leading[0] in _FEW or len(leading) + bool(query.text) < 2:
        return None
    return leading, select(*(keys.count(name) for name in leading))


def chosen(query: Query, leading: Sequence[str], counts: Sequence[int]) -> str:
    """Returns the filter that leaves the fewest runs.

    Where each leaves many, a text leads: its index has the names, which the rows would have to be read for.
    """
    fewest = min(range(len(leading)), key=counts.__getitem__)
    return _TEXT if query.text and counts[fewest] >= _bound(query) else leading[fewest]


def _bound(query: Query) -> int:
    return _PROBED_WITH_TEXT if query.text else _PROBED


def page_statement(query: Query, dialect: str, leading: str | None = None) -> Select[Any] | None:
    """Returns the statement of a page's rows and one more if there is one; None if no run can match.

    `leading`: the filter that leaves the fewest runs; without it the first in a fixed order.
    Raises StoreQueryError for a query that is not valid.
    """
    if not 1 <= query.limit <= PAGE_MAX:
        raise StoreQueryError(f"limit: {query.limit} is not between 1 and {PAGE_MAX}")
    keys = _Keys(query, dialect).statement(leading).subquery("page")
    if query.namespaces == ():
        return None
    return (
        select(*columns(dialect))
        .join(keys, keys.c.id == runs.c.id)
        .order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
    )


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


class _Keys:
    """Builds the statement of a page's positions: time and key."""

    def __init__(self, query: Query, dialect: str) -> None:
        self._query = query
        self._dialect = dialect
        self._values = _values(query)

    def leading(self) -> list[str]:
        """Returns the filters that can lead, the one that usually leaves the fewest runs first."""
        return [name for name in _ORDER if self._can_lead(name)]

    def count(self, name: str) -> Any:
        """Returns the subquery of the number of runs that a filter leaves, up to a bound."""
        if name == "labels":
            some = self._labelled(select(literal(1)))
        else:
            column = FILTERS[name]
            some = select(literal(1)).where(
                column.in_(self._values[name]), *self._window(runs.c.submitted_at, runs.c.id)
            )
        return select(func.count()).select_from(some.limit(_bound(self._query)).subquery()).scalar_subquery()

    def statement(self, leading: str | None = None) -> Any:
        leading = leading or next(iter(self.leading()), None)
        if leading == "labels":
            return self._by_label()
        if leading == _TEXT:
            return self._by_text()
        tests = [*self._tests(leading), *self._window(runs.c.submitted_at, runs.c.id)]
        if leading is None:
            return self._branch(*tests)
        branches = [self._branch(FILTERS[leading] == value, *tests) for value in self._values[leading]]
        if len(branches) == 1:
            return branches[0]
        merged = union_all(*(select(branch.subquery()) for branch in branches)).subquery()
        in_order = select(merged).order_by(merged.c.submitted_at.desc(), merged.c.id.desc())
        return in_order.limit(self._query.limit + 1)

    def _can_lead(self, name: str) -> bool:
        if name == "labels":
            return bool(self._query.labels)
        return 0 < len(self._values.get(name, ())) <= _MERGED

    def _branch(self, *conditions: ColumnElement[bool]) -> Select[Any]:
        return (
            select(runs.c.submitted_at, runs.c.id)
            .where(*conditions)
            .order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
            .limit(self._query.limit + 1)
        )

    def _by_label(self) -> Select[Any]:
        """Reads the index of one label in order of time."""
        name, _ = min(self._query.labels.items())
        time, number = _LABEL.c.submitted_at, _LABEL.c.run_id
        return self._joined(self._labelled(select(time, number.label("id"))), time, number, f"label {name}")

    def _by_text(self) -> Select[Any]:
        """Reads the index of all names in order of time, and the rows of those that match alone."""
        time, number = _NAMED.c.submitted_at, _NAMED.c.id
        statement = select(time, number).where(self._matches(_NAMED.c.search), *self._window(time, number))
        return self._joined(statement, time, number, _TEXT)

    def _joined(
        self, statement: Select[Any], time: ColumnElement[Any], number: ColumnElement[Any], leading: str
    ) -> Select[Any]:
        """Returns the positions of a statement whose rows pass the other filters."""
        return (
            statement.join(runs, runs.c.id == number)
            .where(*self._tests(leading))
            .order_by(time.desc(), number.desc())
            .limit(self._query.limit + 1)
        )

    def _labelled(self, statement: Select[Any]) -> Select[Any]:
        name, value = min(self._query.labels.items())
        return statement.where(
            _LABEL.c.name == indexed(name),
            _LABEL.c.value == indexed(value),
            *self._window(_LABEL.c.submitted_at, _LABEL.c.run_id),
        )

    def _tests(self, leading: str | None) -> Iterator[ColumnElement[bool]]:
        """Yields what the filters demand of each row, but the one that chooses the index."""
        for filter_, values in self._values.items():
            if filter_ != leading:
                column = self._tested(FILTERS[filter_])
                yield column.in_(values) if len(values) > 1 else column == values[0]
        for name, value in self._query.labels.items():
            if leading != f"label {name}":
                row = labels.alias()
                same = (row.c.run_id == runs.c.id, row.c.name == indexed(name))
                found = (
                    select(true()).select_from(row).where(*same, self._tested(row.c.value) == indexed(value))
                )
                yield found.exists()
        if self._query.text and leading != _TEXT:
            yield self._matches(runs.c.search)

    def _matches(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        return column.contains(folded(self._query.text), autoescape=True)

    def _tested(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Returns the column as one that SQLite tests, without a look at its index.

        Without statistics SQLite prefers any index with an equality, and would sort all that it finds.
        """
        if self._dialect != "sqlite":
            return column
        return UnaryExpression(column, operator=custom_op("+"), type_=column.type)

    def _window(self, time: ColumnElement[Any], number: ColumnElement[Any]) -> Iterator[ColumnElement[bool]]:
        """Yields the bounds of the page's order."""
        query = self._query
        for bound in (query.since, query.until):
            if bound is not None and bound.tzinfo is None:
                raise StoreQueryError(f"since, until: {bound} has no time zone")
        if query.since is not None:
            yield time >= query.since
        if query.until is not None:
            yield time < query.until
        if query.cursor:
            submitted_at, last = _position(query.cursor)
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
