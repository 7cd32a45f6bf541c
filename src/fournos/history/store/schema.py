"""The tables of the history.

The first migration makes these tables.  Their own key of a run is a small
integer, `runs.id`; rows that belong to a run refer to it and go with it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
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

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


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
    Column("waited_for", Text, nullable=False),
    Column("waited_for_text", Text, nullable=False),
    # What the store derives.
    Column("search", Text, nullable=False),  # name and display name, folded
    Column("closed_at", Time),  # when the run counts as over for the retention; NULL while it is open
    Column("bytes", BigInteger, nullable=False, server_default="0"),  # of all that it has
    UniqueConstraint("uid", "namespace", "cluster"),  # nearly all runs are of one cluster
    sqlite_autoincrement=True,  # the number of a deleted run is not given again: cursors and blobs name it
)

labels: Final = Table(
    "labels",
    metadata,
    of_run(primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
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

# Each is in the order of a page, so that a page is a part of it.  Columns with few values have none.
for _column in (
    runs.c.fingerprint,
    runs.c.name,
    runs.c.pipeline,
    runs.c.owner,
    runs.c.target,
):
    Index(f"runs_{_column.name}", _column, runs.c.submitted_at, runs.c.id)
# With the cluster: the newest of several namespaces are found in the index alone.
Index("runs_namespace_uid", runs.c.namespace_uid, runs.c.submitted_at, runs.c.id, runs.c.cluster)
Index("runs_bytes", runs.c.namespace_uid, runs.c.bytes)
Index("runs_time", runs.c.submitted_at, runs.c.id)
Index("labels_value", labels.c.name, labels.c.value, labels.c.run_id)
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

artifacts: Final = Table(
    "artifacts",
    metadata,
    of_run(primary_key=True),
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("stored_at", Time, nullable=False),
    Column("key", Text, nullable=False),  # of the blob with its content
)

logs: Final = Table(
    "logs",
    metadata,
    of_run(primary_key=True),
    Column("pod_uid", Text, primary_key=True),
    Column("container", Text, primary_key=True),
    Column("pod", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("started_at", Time, nullable=False),
    Column("ended_at", Time),
    Column("exit_code", Integer),
    Column("bytes", BigInteger, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("failing_line", BigInteger),
    Column("failing_text", Text, nullable=False),
    Column("key", Text, nullable=False),  # of the blob
)

tests: Final = Table(
    "tests",
    metadata,
    Column("id", ID, primary_key=True, autoincrement=True),
    of_run(),
    Column("slot", Text, nullable=False),
    Column("content_key", Text, nullable=False),
    Column("at", Time, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("size", BigInteger, nullable=False),  # of `document`
    Column("document", LargeBinary, nullable=False),  # the whole test: zlib over JSON
    Index("tests_slot", "run_id", "slot", unique=True),
)


kpi_values: Final = Table(
    "kpi_values",
    metadata,
    Column("test_id", ID, ForeignKey("tests.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("kpi_id", Text, primary_key=True),
    Column("series", Text, nullable=False),
    Column("at", Time, nullable=False),
    Column("value", Double, nullable=False),  # of a curve its mean
    # Here and not with the series, whose row all namespaces share.
    Column("higher_is_better", Boolean),
    # A series is read from the index alone.
    Index("kpi_values_series", "series", "at", "test_id", "value", "higher_is_better"),
)

series: Final = Table(
    "series",
    metadata,
    Column("id", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("kpi_id", Text, nullable=False),
    Column("is_curve", Boolean, nullable=False),
    Column("unit", Text, nullable=False),
    Column("labels", Text, nullable=False),  # JSON
    Index("series_fingerprint", "fingerprint", "kpi_id"),
)

baselines: Final = Table(
    "baselines",
    metadata,
    Column("namespace_uid", Text, primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    of_run(),
    Column("at", Time, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index("baselines_run", "run_id"),
)

acknowledgements: Final = Table(
    "acknowledgements",
    metadata,
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("namespace_uid", Text, nullable=False),
    Column("series", Text, nullable=False),
    # No key of a run: an acknowledgement outlives the runs.
    Column("run", Text, nullable=False),
    Column("at", Time, nullable=False),
    Column("rises", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("made_at", Time, nullable=False),
    Index("acknowledgements_series", "series"),
)

announcements: Final = Table(
    "announcements",
    metadata,
    # Neither has it a key of a run: what was announced once stays announced without it.
    Column("namespace_uid", Text, primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    Column("series", Text, primary_key=True),
    Column("run", Text, primary_key=True),
    Column("rises", Boolean, primary_key=True),
    Column("at", Time, nullable=False),
    Column("made_at", Time, nullable=False),
    Index("announcements_time", "made_at"),
)
