"""Brings the tables up to date, by Alembic and the revisions in `migrations`.

Alembic takes 8 MB, so it is imported only where a revision is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, column, inspect, select, table, text

from fournos.history.store.errors import StoreUsageError

_SCRIPTS: Final = Path(__file__).parent / "migrations"
_VERSION: Final = table("alembic_version", column("version_num"))
_ADVISORY_LOCK: Final = 0x666F75726E6F73  # "fournos"


def is_current(connection: Connection) -> bool:
    """Returns whether the tables are those of this version; False if there are older ones, or none.

    Raises StoreUsageError for those of a later version.
    """
    revision = None
    if inspect(connection).has_table(_VERSION.name):
        revision = connection.scalar(select(_VERSION.c.version_num))
    if revision is not None and revision not in revisions():
        raise StoreUsageError(
            f"The history's database was written by a later version of fournos (revision {revision}): "
            "use that version, or a backup from before it"
        )
    return bool(revision == revisions()[-1])


def upgrade(connection: Connection) -> None:
    """Applies the revisions that are missing, in the connection's transaction: all or none."""
    if connection.dialect.name == "postgresql":
        # Several replicas may start together.  The lock ends with the transaction.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    if not is_current(connection):
        _run(connection)


def revisions() -> list[str]:
    """Returns all revisions, the oldest first: the names of the files begin with them."""
    return sorted(path.name.partition("_")[0] for path in (_SCRIPTS / "versions").glob("[0-9]*_*.py"))


def _run(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
