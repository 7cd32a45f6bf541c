"""The tables of the history.  `metadata` also takes the tables that other modules of this package declare.

The latest migration makes exactly these tables (a test compares them).  Their own key of a run is a small
integer, `runs.id`; rows that belong to a run refer to it and go with it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def in_the_row(column: ColumnElement[Any], dialect: str) -> ColumnElement[Any]:
    """Returns the column as one that SQLite tests in the row, without a look at its index."""
    if dialect != "sqlite":
        return column
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


def microseconds(time: datetime) -> int:
    """Returns the time as microseconds since 1970.  Raises ValueError without a time zone."""
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone")
    return (time - _EPOCH) // _MICROSECOND


def time_of(number: int) -> datetime:
    """Returns the time that `microseconds` gave."""
    return _EPOCH + timedelta(microseconds=number)


class Time(TypeDecorator[datetime]):
    """A time as microseconds since 1970: the same order and the same bytes in every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else microseconds(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else time_of(value)


ID: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers rows by itself only in a column of the type INTEGER."""

metadata: Final = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
        "uq": "%(table_name)s_%(column_0_name)s_unique",
    }
)


def of_run(*, primary_key: bool = False) -> Column[int]:
    """Returns the column of a table whose rows belong to a run, and are deleted with it."""
    return Column(
        "run_id", ID, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=primary_key, nullable=False
    )


runs: Final = Table(
    "runs",
    metadata,
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("uid", Text, nullable=False),
    Column("namespace_uid", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("submitted_at", Time, nullable=False),
    Column("observed_at", Time, nullable=False),
    Column("resource_version", BigInteger, nullable=False),
    Column("phase", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("display_name", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("pipeline", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("gpu_type", Text, nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("queued_at", Time),
    Column("admitted_at", Time),
    Column("started_at", Time),
    Column("running_at", Time),
    Column("ended_at", Time),
    Column("ending", Text, nullable=False),
    Column("failure", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    # What the store derives.
    Column("search", Text, nullable=False),  # name and display name, folded
    Column("closed_at", Time),  # when the run counts as over for the retention; NULL while it is open
    Column("document_bytes", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("cluster", "namespace", "uid"),
    sqlite_autoincrement=True,  # the number of a deleted run is not given again: cursors and blobs name it
)

labels: Final = Table(
    "labels",
    metadata,
    of_run(primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("submitted_at", Time, nullable=False),  # of the run: the order of a page that a label selects
)

waits: Final = Table(
    "waits",
    metadata,
    of_run(primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("start_at", Time, nullable=False),
    Column("end_at", Time),
    Column("cause", Text, nullable=False),
    Column("text", Text, nullable=False),
)

documents: Final = Table(
    "documents",
    metadata,
    of_run(primary_key=True),
    Column("name", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),  # of `data`
    Column("data", LargeBinary, nullable=False),  # zlib over JSON
)

keeps: Final = Table(
    "keeps",
    metadata,
    of_run(primary_key=True),
    Column("at", Time, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

tombstones: Final = Table(
    "tombstones",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("uid", Text, primary_key=True),
    Column("at", Time, nullable=False),
    Column("cause", Text, nullable=False),
)

blobs: Final = Table(
    "blobs",
    metadata,
    Column("key", Text, primary_key=True),
    # NULL: the run is deleted, and the blob is still to be deleted.
    Column("run_id", ID, ForeignKey("runs.id", ondelete="SET NULL")),
    Column("size", BigInteger, nullable=False),
    Index("blobs_run", "run_id"),
)

FILTERS: Final = {
    "uid": runs.c.uid,
    "fingerprints": runs.c.fingerprint,
    "name": runs.c.name,
    "pipelines": runs.c.pipeline,
    "owners": runs.c.owner,
    "targets": runs.c.target,
    "namespaces": runs.c.namespace_uid,
    "namespace": runs.c.namespace,
    "phases": runs.c.phase,
    "kinds": runs.c.kind,
    "in_cluster": runs.c.cluster,
}
"""The filters of `records.Query` over one column each, the one that usually leaves the fewest runs first."""

# Each is in the order of a page, so that a page is a part of it.
for _column in FILTERS.values():
    Index(f"runs_{_column.name}", _column, runs.c.submitted_at, runs.c.id)
Index("runs_time", runs.c.submitted_at, runs.c.id)
Index("runs_text", runs.c.submitted_at, runs.c.id, runs.c.search)  # a search reads it, and never the table
Index("labels_value", labels.c.name, labels.c.value, labels.c.submitted_at, labels.c.run_id)
Index("runs_ended", runs.c.ended_at, runs.c.id)
Index("runs_closed", runs.c.closed_at)
Index(
    "runs_open",
    runs.c.cluster,
    runs.c.kind,
    runs.c.id,
    sqlite_where=runs.c.closed_at.is_(None),
    postgresql_where=runs.c.closed_at.is_(None),
)
