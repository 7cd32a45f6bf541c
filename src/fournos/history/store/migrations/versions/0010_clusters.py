"""The index of the runs of a cluster, in the order of a page."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_index("runs_cluster", "runs", ["cluster", "submitted_at", "id"], unique=False)
