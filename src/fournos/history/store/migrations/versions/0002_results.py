"""Results: records, scalars, curves, series; baselines, acknowledgements, predictions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _results()
    op.create_table(
        "baselines",
        sa.Column("namespace_uid", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("baselines_run_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("namespace_uid", "fingerprint", name=op.f("baselines_pk")),
    )
    op.create_index("baselines_run", "baselines", ["run_id"], unique=False)
    op.create_table(
        "acknowledgements",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("namespace_uid", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("rises", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("acknowledgements_pk")),
    )
    op.create_index("acknowledgements_series", "acknowledgements", ["series"], unique=False)
    op.create_table(
        "predictions",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("median_at", sa.BigInteger(), nullable=False),
        sa.Column("p90_at", sa.BigInteger(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("predictions_run_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "event", "made_at", name=op.f("predictions_pk")),
    )
    op.create_index("predictions_time", "predictions", ["made_at"], unique=False)


def _results() -> None:
    op.create_table(
        "result_records",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("content_key", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("header", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("result_records_run_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("result_records_pk")),
    )
    op.create_index("result_records_slot", "result_records", ["run_id", "slot"], unique=True)
    op.create_table(
        "scalars",
        sa.Column("record_id", _ID, autoincrement=False, nullable=False),
        sa.Column("kpi_id", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"], ["result_records.id"], name=op.f("scalars_record_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("record_id", "kpi_id", name=op.f("scalars_pk")),
    )
    op.create_index("scalars_series", "scalars", ["series", "at", "record_id", "value"], unique=False)
    op.create_table(
        "curves",
        sa.Column("record_id", _ID, autoincrement=False, nullable=False),
        sa.Column("kpi_id", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"], ["result_records.id"], name=op.f("curves_record_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("record_id", "kpi_id", name=op.f("curves_pk")),
    )
    op.create_index("curves_series", "curves", ["series", "at", "record_id"], unique=False)
    op.create_table(
        "series",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("kpi_id", sa.Text(), nullable=False),
        sa.Column("is_curve", sa.Boolean(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("higher_is_better", sa.Boolean(), nullable=True),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("series_pk")),
    )
    op.create_index("series_fingerprint", "series", ["fingerprint", "kpi_id"], unique=False)
