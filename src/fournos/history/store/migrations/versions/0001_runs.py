"""Runs, and what belongs to them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("namespace_uid", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=False),
        sa.Column("observed_at", sa.BigInteger(), nullable=False),
        sa.Column("resource_version", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), nullable=True),
        sa.Column("admitted_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("ending", sa.Text(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("document_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("runs_pk")),
        sa.UniqueConstraint("cluster", "namespace", "uid", name=op.f("runs_cluster_unique")),
        sqlite_autoincrement=True,
    )
    op.create_index("runs_closed", "runs", ["closed_at"], unique=False)
    op.create_index("runs_ended", "runs", ["ended_at", "id"], unique=False)
    op.create_index("runs_fingerprint", "runs", ["fingerprint", "submitted_at", "id"], unique=False)
    op.create_index("runs_kind", "runs", ["kind", "submitted_at", "id"], unique=False)
    op.create_index("runs_namespace", "runs", ["namespace", "submitted_at", "id"], unique=False)
    op.create_index("runs_uid", "runs", ["uid", "submitted_at", "id"], unique=False)
    op.create_index("runs_name", "runs", ["name", "submitted_at", "id"], unique=False)
    op.create_index("runs_namespace_uid", "runs", ["namespace_uid", "submitted_at", "id"], unique=False)
    op.create_index(
        "runs_open",
        "runs",
        ["cluster", "kind", "id"],
        unique=False,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_index("runs_owner", "runs", ["owner", "submitted_at", "id"], unique=False)
    op.create_index("runs_phase", "runs", ["phase", "submitted_at", "id"], unique=False)
    op.create_index("runs_pipeline", "runs", ["pipeline", "submitted_at", "id"], unique=False)
    op.create_index("runs_target", "runs", ["target", "submitted_at", "id"], unique=False)
    op.create_index("runs_text", "runs", ["submitted_at", "id", "search"], unique=False)
    op.create_index("runs_time", "runs", ["submitted_at", "id"], unique=False)
    op.create_table(
        "tombstones",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "namespace", "uid", name=op.f("tombstones_pk")),
    )
    op.create_table(
        "blobs",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("blobs_run_id_fk"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("key", name=op.f("blobs_pk")),
    )
    op.create_index("blobs_run", "blobs", ["run_id"], unique=False)
    op.create_table(
        "documents",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("documents_run_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("documents_pk")),
    )
    op.create_table(
        "keeps",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("keeps_run_id_fk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("keeps_pk")),
    )
    op.create_table(
        "labels",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("labels_run_id_fk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("labels_pk")),
    )
    op.create_index("labels_value", "labels", ["name", "value", "submitted_at", "run_id"], unique=False)
    op.create_table(
        "waits",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("waits_run_id_fk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("waits_pk")),
    )
