"""All tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
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
    op.create_index("acknowledgements_series", "acknowledgements", ["series"])
    op.create_table(
        "announcements",
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("namespace_uid", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("rises", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message", "series", name=op.f("announcements_pk")),
    )
    op.create_index("announcements_place", "announcements", ["namespace_uid", "fingerprint"])
    op.create_index("announcements_time", "announcements", ["made_at"])
    op.create_table(
        "runs",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
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
        sa.Column("running_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("ending", sa.Text(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("waited_for", sa.Text(), nullable=False),
        sa.Column("waited_for_text", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("runs_pk")),
        sa.UniqueConstraint("uid", "namespace", "cluster", name=op.f("runs_uid_unique")),
        sqlite_autoincrement=True,
    )
    op.create_index("runs_bytes", "runs", ["namespace_uid", "bytes"])
    op.create_index("runs_closed", "runs", ["closed_at"])
    op.create_index("runs_ended", "runs", ["ended_at", "id"])
    op.create_index("runs_fingerprint", "runs", ["fingerprint", "submitted_at", "id"])
    op.create_index("runs_name", "runs", ["name", "submitted_at", "id"])
    op.create_index("runs_namespace_uid", "runs", ["namespace_uid", "submitted_at", "id", "cluster"])
    op.create_index(
        "runs_open",
        "runs",
        ["cluster", "kind", "id"],
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_index("runs_owner", "runs", ["owner", "submitted_at", "id"])
    op.create_index("runs_pipeline", "runs", ["pipeline", "submitted_at", "id"])
    op.create_index("runs_target", "runs", ["target", "submitted_at", "id"])
    op.create_index("runs_time", "runs", ["submitted_at", "id"])
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
    op.create_index("series_fingerprint", "series", ["fingerprint", "kpi_id"])
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
        "artifacts",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("stored_at", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("artifacts_run_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "path", name=op.f("artifacts_pk")),
    )
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
    op.create_index("baselines_run", "baselines", ["run_id"])
    op.create_table(
        "blobs",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("run_id", _ID, nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("blobs_run_id_fk"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("key", name=op.f("blobs_pk")),
    )
    op.create_index("blobs_run", "blobs", ["run_id"])
    op.create_table(
        "documents",
        sa.Column("run_id", _ID, nullable=False),
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
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("keeps_run_id_fk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("keeps_pk")),
    )
    op.create_table(
        "labels",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("labels_run_id_fk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("labels_pk")),
    )
    op.create_index("labels_value", "labels", ["name", "value", "run_id"])
    op.create_table(
        "logs",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("container", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("failing_line", sa.BigInteger(), nullable=True),
        sa.Column("failing_text", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("logs_run_id_fk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "pod_uid", "container", name=op.f("logs_pk")),
    )
    op.create_table(
        "tests",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("content_key", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("tests_run_id_fk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("tests_pk")),
    )
    op.create_index("tests_slot", "tests", ["run_id", "slot"], unique=True)
    op.create_table(
        "kpi_values",
        sa.Column("test_id", _ID, autoincrement=False, nullable=False),
        sa.Column("kpi_id", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["test_id"], ["tests.id"], name=op.f("kpi_values_test_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("test_id", "kpi_id", name=op.f("kpi_values_pk")),
    )
    op.create_index("kpi_values_series", "kpi_values", ["series", "at", "test_id", "value"])
