"""The upload that each artifact came by: it is a part of the names of its chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("artifacts", sa.Column("upload", sa.Text()))
