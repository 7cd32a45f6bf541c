"""All tables, as `fournos.history.store.schema` has them.

The first change of the tables after a release makes a revision 0002, and writes out here what they were.
"""

from alembic import op

from fournos.history.store.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
