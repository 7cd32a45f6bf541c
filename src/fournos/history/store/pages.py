"""The statement of one page: by an index, in its order, no further than the page goes.  Pure.

A page is read by the index of one filter, the first in `FILTERS` that the query uses; the other filters are
tests of the rows that it yields.  Several values of that filter are read as one ordered list each, and
merged: an `IN` would have to be sorted, however long it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, literal, select, true, tuple_, union_all

from fournos.history.records import PAGE_MAX, Query
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.rows import COLUMNS
from fournos.history.store.schema import (
    BY_LABEL,
    BY_TEXT,
    BY_TIME,
    FILTERS,
    ID,
    Time,
    index_of,
    labels,
    microseconds,
    runs,
    time_of,
)
from fournos.history.store.text import folded, indexed

_MERGED: Final = 16
"""More values than these are tested on the rows in order of time: so many match soon."""
_BEFORE_LABELS: Final = ("fingerprints", "name")
"""The filters that leave fewer runs than a label."""


def page_statement(query: Query, dialect: str) -> Select[Any] | None:
    """Returns the statement of a page's rows and one more if there is one; None if no run can match.

    Raises StoreQueryError for a query that is not valid.
    """
    if not 1 <= query.limit <= PAGE_MAX:
        raise StoreQueryError(f"limit: {query.limit} is not between 1 and {PAGE_MAX}")
    conditions = _conditions(query, dialect)
    if query.namespaces == ():
        return None
    keys = _keys(query, conditions).subquery("page")
    return (
        select(*COLUMNS)
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


def _keys(query: Query, conditions: Mapping[str, ColumnElement[bool]]) -> Any:
    """Returns the statement of the page's positions: time and key."""
    values = _values(query)
    leading = next(
        (name for name in (*_BEFORE_LABELS, "labels", *FILTERS) if _leads(query, values, name)), None
    )
    if leading == "labels":
        return _by_label(query, conditions)
    if leading is None:
        index = BY_TEXT if query.text else BY_TIME
        return _branch(query, conditions, str(index.name))
    column = FILTERS[leading]
    others = {name: condition for name, condition in conditions.items() if name != leading}
    branches = [
        _branch(query, {**others, leading: column == value}, index_of(column)) for value in values[leading]
    ]
    if len(branches) == 1:
        return branches[0]
    merged = union_all(*(select(branch.subquery()) for branch in branches)).subquery()
    return select(merged).order_by(merged.c.submitted_at.desc(), merged.c.id.desc()).limit(query.limit + 1)


def _leads(query: Query, values: Mapping[str, tuple[str, ...]], name: str) -> bool:
    return bool(query.labels) if name == "labels" else 0 < len(values.get(name, ())) <= _MERGED


def _branch(query: Query, conditions: Mapping[str, ColumnElement[bool]], index: str) -> Select[Any]:
    return (
        select(runs.c.submitted_at, runs.c.id)
        .with_hint(runs, f"INDEXED BY {index}", "sqlite")
        .where(*conditions.values())
        .order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
        .limit(query.limit + 1)
    )


def _by_label(query: Query, conditions: Mapping[str, ColumnElement[bool]]) -> Select[Any]:
    """Reads the index of labels, in order of time, for one of the labels."""
    name, value = min(query.labels.items())
    leading = labels.alias("leading")
    return (
        select(leading.c.submitted_at, leading.c.run_id.label("id"))
        .with_hint(leading, f"INDEXED BY {BY_LABEL.name}", "sqlite")
        .join(runs, runs.c.id == leading.c.run_id)
        .where(leading.c.name == indexed(name), leading.c.value == indexed(value), *conditions.values())
        .order_by(leading.c.submitted_at.desc(), leading.c.run_id.desc())
        .limit(query.limit + 1)
    )


def _values(query: Query) -> dict[str, tuple[str, ...]]:
    """Returns the filters over one column that the query uses, with their values."""
    found: dict[str, tuple[str, ...]] = {}
    for name in FILTERS:
        value = getattr(query, name)
        given = (value,) if isinstance(value, str) else tuple(value or ())
        if kept := tuple(dict.fromkeys(indexed(each) for each in given if each or name != "name")):
            found[name] = kept
    return found


def _conditions(query: Query, dialect: str) -> dict[str, ColumnElement[bool]]:
    """Returns what each filter of the query demands of a run."""
    found: dict[str, ColumnElement[bool]] = {
        name: FILTERS[name].in_(values) if len(values) > 1 else FILTERS[name] == values[0]
        for name, values in _values(query).items()
    }
    for name, value in query.labels.items():
        row = labels.alias()
        same = (row.c.run_id == runs.c.id, row.c.name == indexed(name), row.c.value == indexed(value))
        found[f"label {name}"] = select(true()).select_from(row).where(*same).exists()
    if query.text:
        position = func.instr if dialect == "sqlite" else func.strpos
        found["text"] = position(runs.c.search, folded(query.text)) > 0
    try:
        if query.since is not None:
            found["since"] = runs.c.submitted_at >= query.since
            microseconds(query.since)
        if query.until is not None:
            found["until"] = runs.c.submitted_at < query.until
            microseconds(query.until)
    except ValueError as error:
        raise StoreQueryError(f"since, until: {error}") from None
    if query.cursor:
        submitted_at, number = _position(query.cursor)
        last = tuple_(literal(submitted_at, Time()), literal(number, ID))
        found["cursor"] = tuple_(runs.c.submitted_at, runs.c.id) < last
    return found
