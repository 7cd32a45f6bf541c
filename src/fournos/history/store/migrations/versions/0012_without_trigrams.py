"""Names are compared with a text: the index of their trigrams, of the revisions 0009 to 0011, goes."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for event in ("insert", "delete", "update"):
            op.execute(f"DROP TRIGGER IF EXISTS runs_trigrams_{event}")
        op.execute("DROP TABLE IF EXISTS runs_trigrams")
    else:
        # The extension pg_trgm stays: others may use it.
        op.execute("DROP INDEX IF EXISTS runs_trigrams")
