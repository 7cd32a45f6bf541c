"""The bytes that a run takes in the database, apart from its row: what retention by size counts."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, func, select, update

from fournos.history.store.schema import curves, documents, result_records, runs, scalars

SCALAR_BYTES: Final = 200
"""What one scalar takes, with its part of the index."""


def total(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Returns the sum of a column; 0 without rows."""
    return func.coalesce(func.sum(column), 0)


_MINE: Final[Any] = bindparam("number")
_RECORDS: Final = select(result_records.c.id).where(result_records.c.run_id == _MINE)
_SIZES: Final = (
    select(total(documents.c.size)).where(documents.c.run_id == _MINE),
    select(total(result_records.c.size)).where(result_records.c.run_id == _MINE),
    select(total(curves.c.size)).where(curves.c.record_id.in_(_RECORDS)),
    select(func.count() * SCALAR_BYTES).select_from(scalars).where(scalars.c.record_id.in_(_RECORDS)),
)
_TOTAL: Final[Any] = sum(one.scalar_subquery() for one in _SIZES)

MEASURE: Final = update(runs).where(runs.c.id == _MINE).values(document_bytes=_TOTAL)
"""Sets `runs.document_bytes` of the run `number`, after its documents or results have changed."""
