"""Brings the tables up to date, by Alembic and the revisions in `migrations`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from fournos.history.store.errors import StoreUsageError

_SCRIPTS: Final = Path(__file__).parent / "migrations"
_ADVISORY_LOCK: Final = 0x666F75726E6F73  # "fournos"


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Applies the revisions that are missing, in the connection's transaction: all or none."""
    if connection.dialect.name == "postgresql":
        # Several replicas may start together.  The lock ends with the transaction.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    _refuse_newer(connection)
    if current(connection) != ScriptDirectory(str(_SCRIPTS)).get_current_head():
        command.upgrade(_config(connection), revision)


def require_head(connection: Connection) -> None:
    """Raises StoreUsageError if the tables are not those of this version."""
    _refuse_newer(connection)
    if current(connection) != ScriptDirectory(str(_SCRIPTS)).get_current_head():
        raise StoreUsageError(
            "The history's database was written by an earlier version: start `fournos run --enable history` "
            "of this version once, which brings it up to date"
        )


def current(connection: Connection) -> str | None:
    """Returns the revision of the tables; None for an empty database."""
    return MigrationContext.configure(connection).get_current_revision()


def revisions() -> list[str]:
    """Returns all revisions, the oldest first."""
    return [each.revision for each in ScriptDirectory(str(_SCRIPTS)).walk_revisions()][::-1]


def _refuse_newer(connection: Connection) -> None:
    found = current(connection)
    if found is not None and found not in revisions():
        raise StoreUsageError(
            f"The history's database was written by a later version of fournos (revision {found}): "
            "use that version, or a backup from before it"
        )


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
