"""When a run last began to run: lists count from it, as those of live jobs do."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("runs", sa.Column("running_at", sa.BigInteger()))
