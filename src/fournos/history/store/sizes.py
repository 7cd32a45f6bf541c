"""The bytes that a run takes in the database, apart from its row: what retention by size counts."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, func, select, update

from fournos.history.store.schema import documents, kpi_values, runs, tests

VALUE_BYTES: Final = 200
"""What one value takes, with its part of the index."""


def total(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Returns the sum of a column; 0 without rows."""
    return func.coalesce(func.sum(column), 0)


_MINE: Final[Any] = bindparam("number")
_TESTS: Final = select(tests.c.id).where(tests.c.run_id == _MINE)
_SIZES: Final = (
    select(total(documents.c.size)).where(documents.c.run_id == _MINE),
    select(total(tests.c.size)).where(tests.c.run_id == _MINE),
    select(func.count() * VALUE_BYTES).select_from(kpi_values).where(kpi_values.c.test_id.in_(_TESTS)),
)
_TOTAL: Final[Any] = sum(one.scalar_subquery() for one in _SIZES)

MEASURE: Final = update(runs).where(runs.c.id == _MINE).values(document_bytes=_TOTAL)
"""Sets `runs.document_bytes` of the run `number`, after its documents or results have changed."""
