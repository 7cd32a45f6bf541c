"""The tables of results: records, scalars, curves, series; baselines, acknowledgements, predictions."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
)

from fournos.history.store.schema import ID, Time, metadata, of_run

result_records: Final = Table(
    "result_records",
    metadata,
    Column("id", ID, primary_key=True, autoincrement=True),
    of_run(),
    Column("slot", Text, nullable=False),
    Column("content_key", Text, nullable=False),
    Column("at", Time, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("size", BigInteger, nullable=False),  # of `header`
    Column("header", LargeBinary, nullable=False),  # everything but the values
    Index("result_records_slot", "run_id", "slot", unique=True),
)


def _of_record() -> Column[int]:
    return Column(
        "record_id",
        ID,
        ForeignKey("result_records.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
        nullable=False,
    )


scalars: Final = Table(
    "scalars",
    metadata,
    _of_record(),
    Column("kpi_id", Text, primary_key=True),
    Column("series", Text, nullable=False),
    Column("at", Time, nullable=False),
    Column("value", Double, nullable=False),
    # A series is read from the index alone.
    Index("scalars_series", "series", "at", "record_id", "value"),
)

curves: Final = Table(
    "curves",
    metadata,
    _of_record(),
    Column("kpi_id", Text, primary_key=True),
    Column("series", Text, nullable=False),
    Column("at", Time, nullable=False),
    Column("size", BigInteger, nullable=False),  # of `data`
    Column("data", LargeBinary, nullable=False),  # zlib over JSON
    Index("curves_series", "series", "at", "record_id"),
)

series: Final = Table(
    "series",
    metadata,
    Column("id", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("kpi_id", Text, nullable=False),
    Column("is_curve", Boolean, nullable=False),
    Column("unit", Text, nullable=False),
    Column("higher_is_better", Boolean),  # as the newest record has it
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

predictions: Final = Table(
    "predictions",
    metadata,
    of_run(primary_key=True),
    Column("event", Text, primary_key=True),
    Column("made_at", Time, primary_key=True, autoincrement=False),
    Column("median_at", Time, nullable=False),
    Column("p90_at", Time, nullable=False),
    Column("basis", Text, nullable=False),
    Index("predictions_time", "made_at"),
)

announcements: Final = Table(
    "announcements",
    metadata,
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("namespace_uid", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("series", Text, nullable=False),
    # No key of a run: what was announced once stays announced without it.
    Column("run", Text, nullable=False),
    Column("at", Time, nullable=False),
    Column("rises", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("receiver", Text, nullable=False),
    Column("message", Text, nullable=False),  # identifies the message, which may have several series
    Column("delivery", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("made_at", Time, nullable=False),
    Index("announcements_place", "namespace_uid", "fingerprint"),
    Index("announcements_message", "message"),
    Index("announcements_time", "made_at"),
)
