"""The index of the trigrams of names, where the database can have one."""

import logging
import sqlite3

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import DBAPIError

log = logging.getLogger(__name__)

revision = "0009"
down_revision = "0008"

_ADD = "INSERT INTO runs_trigrams (rowid, search) VALUES (new.id, new.search);"
_REMOVE = "INSERT INTO runs_trigrams (runs_trigrams, rowid, search) VALUES ('delete', old.id, old.search);"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def _sqlite() -> None:
    modules = sa.text("SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'")
    if sqlite3.sqlite_version_info < (3, 34) or not op.get_bind().scalar(modules):
        log.warning("This SQLite has no FTS5 with trigrams, so the history compares all names with a text")
        return
    # The names are folded already, and read from `runs`: the table has the trigrams alone.
    op.execute(
        "CREATE VIRTUAL TABLE runs_trigrams USING fts5(search, content = 'runs', content_rowid = 'id', "
        "columnsize = 0, tokenize = 'trigram case_sensitive 1')"
    )
    op.execute("INSERT INTO runs_trigrams (runs_trigrams) VALUES ('rebuild')")
    op.execute(f"CREATE TRIGGER runs_trigrams_insert AFTER INSERT ON runs BEGIN {_ADD} END")
    op.execute(f"CREATE TRIGGER runs_trigrams_delete AFTER DELETE ON runs BEGIN {_REMOVE} END")
    op.execute(
        "CREATE TRIGGER runs_trigrams_update AFTER UPDATE OF search ON runs "
        f"WHEN old.search <> new.search BEGIN {_REMOVE} {_ADD} END"
    )


def _postgresql() -> None:
    try:
        with op.get_bind().begin_nested():
            # A trusted extension: it takes the right to create in the database, no superuser.
            op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            # A read compares all that is not in the index yet: keep it short.
            op.execute(
                "CREATE INDEX IF NOT EXISTS runs_trigrams ON runs USING gin (search gin_trgm_ops) "
                "WITH (gin_pending_list_limit = 256)"
            )
    except DBAPIError as error:
        log.warning(
            "PostgreSQL has no pg_trgm, so the history compares all names with a text: %s", error.orig
        )
