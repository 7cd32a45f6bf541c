"""The tables: made by the migration alone, once, and by a version that has it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from fournos.history.records import Record
from fournos.history.store import HistoryStore, StoreUsageError, database
from fournos.history.store.schema import metadata
from tests.store.test_store import FULL


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True})
    return list(compare_metadata(context, metadata))


async def test_the_latest_revision_makes_the_tables_of_the_program(store: HistoryStore) -> None:
    async with store.reading() as connection:
        assert await connection.run_sync(differences) == []


async def test_opening_again_changes_nothing(empty_url: str) -> None:
    async with await HistoryStore.open(empty_url) as store:
        await store.record(Record(FULL))
    async with await HistoryStore.open(empty_url) as store:
        assert await store.get(FULL.identity) == FULL


def test_the_files_of_the_revisions_are_named_by_them_in_their_order() -> None:
    scripts = ScriptDirectory(str(Path(database.__file__).parent / "migrations"))
    walked = [each.revision for each in scripts.walk_revisions()]
    assert database.revisions() == walked[::-1]


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
async def test_alembic_is_not_loaded_where_no_revision_is_missing(empty_url: str) -> None:
    await (await HistoryStore.open(empty_url)).close()
    program = f"""
import asyncio, sys
from fournos.history.store import HistoryStore
async def opened():
    await (await HistoryStore.open({empty_url!r})).close()
asyncio.run(opened())
print(*(name for name in ("alembic", "mako", "pygments") if name in sys.modules))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
    assert (await process.communicate())[0].split() == []
    assert process.returncode == 0


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
async def test_replicas_that_start_together_migrate_once(empty_url: str) -> None:
    stores = await asyncio.gather(*(HistoryStore.open(empty_url) for _ in range(4)))
    assert await stores[0].record(Record(FULL))
    assert await stores[3].get(FULL.identity) == FULL
    for store in stores:
        await store.close()


async def test_a_later_version_of_the_tables_is_refused(empty_url: str) -> None:
    async with await HistoryStore.open(empty_url) as store, store.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUsageError, match=r"later version of fournos \(revision 9999\)"):
        await HistoryStore.open(empty_url)


async def test_a_failed_migration_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = database.upgrade

    def killed(connection: Connection) -> None:
        upgrade(connection)
        raise ConnectionAbortedError("killed")

    monkeypatch.setattr(database, "upgrade", killed)
    with pytest.raises(Exception, match="killed"):
        await HistoryStore.open(empty_url)
    monkeypatch.undo()
    async with await HistoryStore.open(empty_url) as store:
        assert await store.record(Record(FULL))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("sqlite://", "needs the path of a file"),
        ("sqlite:///:memory:", "needs the path of a file"),
        ("mysql://me:hunter2@db/x", "mysql: the history's database is sqlite"),
        ("hunter2", "is not one like sqlite:"),
        ("sqlite:////proc/nothing/history.db", "cannot be opened"),
    ],
)
async def test_a_url_that_cannot_be_used(bad: str, words: str) -> None:
    with pytest.raises(StoreUsageError, match=words) as refused:
        await HistoryStore.open(bad)
    assert "hunter2" not in str(refused.value)
