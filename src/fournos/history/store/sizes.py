"""The bytes of a run's results, logs and artifacts, and the bound of those of a namespace."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, func, select, update

from fournos.history.store.errors import NamespaceFullError
from fournos.history.store.schema import blobs, kpi_values, runs, tests

VALUE_BYTES: Final = 200
"""What one value takes, with its part of the index."""


def total(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Returns the sum of a column; 0 without rows."""
    return func.coalesce(func.sum(column), 0)


_MINE: Final[Any] = bindparam("number")
_TESTS: Final = select(tests.c.id).where(tests.c.run_id == _MINE)
_SIZES: Final = (
    select(total(blobs.c.size)).where(blobs.c.run_id == _MINE),
    select(total(tests.c.size)).where(tests.c.run_id == _MINE),
    select(func.count() * VALUE_BYTES).select_from(kpi_values).where(kpi_values.c.test_id.in_(_TESTS)),
)
_TOTAL: Final[Any] = sum(one.scalar_subquery() for one in _SIZES)
_MEASURE: Final = update(runs).where(runs.c.id == _MINE).values(bytes=_TOTAL)
_NAMESPACE: Final = select(runs.c.namespace_uid).where(runs.c.id == _MINE).scalar_subquery()
_USED: Final = select(total(runs.c.bytes)).where(runs.c.namespace_uid == _NAMESPACE)


def measure(connection: Connection, number: int, most: int = 0) -> None:
    """Sets the bytes of the run `number`, after its results, logs or artifacts have changed.

    Raises NamespaceFullError if the runs of its namespace have more than `most` bytes with it; 0: no limit.
    """
    connection.execute(_MEASURE, {"number": number})
    if most and (used := int(connection.scalar(_USED, {"number": number}) or 0)) > most:
        raise NamespaceFullError(
            f"the results, logs and artifacts of the namespace would have {used / 10**6:.1f} MB, and at most "
            f"{most // 10**6} MB are kept: delete runs that are not needed, or ask an administrator for more"
        )
