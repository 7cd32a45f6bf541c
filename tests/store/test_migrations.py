"""The tables: made by the migrations alone, and brought up to date from every revision with their rows."""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, LargeBinary, MetaData, text

import fournos.history
from fournos.history.records import Document, Interval, Record
from fournos.history.store import HistoryStore, StoreUsageError, migrate
from fournos.history.store.backup import continue_numbers
from fournos.history.store.database import Database, _engine, _parsed
from fournos.history.store.schema import metadata
from fournos.insight.causes import Cause
from tests.history import a_run, at, ended, everything
from tests.store.test_store import FULL

REVISIONS = Path(__file__).parent / "revisions"
"""The rows of a database of each revision, as its version has written them: a released file never changes."""


def load_all_tables() -> None:
    """Imports every module of the history: some declare tables of their own."""
    for module in pkgutil.walk_packages(fournos.history.__path__, "fournos.history."):
        if ".migrations" not in module.name:
            importlib.import_module(module.name)


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True})
    return list(compare_metadata(context, metadata))


async def test_the_latest_revision_makes_the_tables_of_the_program(store: HistoryStore) -> None:
    load_all_tables()
    async with store.reading() as connection:
        assert await connection.run_sync(differences) == []


def fill(connection: Connection, revision: str) -> None:
    migrate.upgrade(connection, revision)
    tables = MetaData()
    tables.reflect(connection)
    for name, rows in json.loads((REVISIONS / f"{revision}.json").read_text()).items():
        table = tables.tables[name]
        for row in rows:
            binary = {key for key in row if isinstance(table.c[key].type, LargeBinary)}
            values = {key: bytes.fromhex(value) if key in binary else value for key, value in row.items()}
            connection.execute(table.insert().values(values))
        if connection.dialect.name == "postgresql":
            continue_numbers(connection, table)


@pytest.mark.parametrize("revision", migrate.revisions())
async def test_from_every_revision_to_the_latest(empty_url: str, revision: str) -> None:
    engine = _engine(_parsed(empty_url), 30)
    async with engine.begin() as connection:
        await connection.run_sync(fill, revision)
    await engine.dispose()
    async with await HistoryStore.open(empty_url) as store:
        # Revisions before 0011 have no time of the last begin of a run.
        migrated = FULL if revision >= "0011" else replace(FULL, running_at=None)
        assert await store.get(FULL.identity) == migrated
        assert await store.get(a_run(1).identity) == a_run(1)
        assert (await store.find(everything(text="JOB-1"))).runs == (a_run(1),)
        assert await store.waits(FULL.identity) == (
            Interval(at(7), at(9), Cause.LOCK, "held by job x"),
            Interval(at(9), None, Cause.QUOTA),
        )
        assert await store.document(FULL.identity, Document.OBJECT) == {"spec": {"owner": "alice"}}
        assert await store.kept([FULL.identity, a_run(1).identity]) == {FULL.identity}
        assert not await store.record(Record(ended(a_run(2)))), "it was deleted by a person"
        assert await store.record(Record(ended(a_run(1))))


TRIGRAMS = {
    "sqlite": (
        "CREATE VIRTUAL TABLE runs_trigrams USING fts5(search, content = 'runs', content_rowid = 'id', "
        "columnsize = 0, tokenize = 'trigram case_sensitive 1')",
        "CREATE TRIGGER runs_trigrams_insert AFTER INSERT ON runs BEGIN "
        "INSERT INTO runs_trigrams (rowid, search) VALUES (new.id, new.search); END",
    ),
    "postgresql": ("CREATE INDEX runs_trigrams ON runs (search)",),
}
"""What the revisions 0009 to 0011 had made; PostgreSQL with another kind of index."""
NAMED = {
    "sqlite": "SELECT count(*) FROM sqlite_master WHERE name LIKE 'runs_trigrams%'",
    "postgresql": "SELECT count(to_regclass('runs_trigrams'))",
}


async def test_the_index_of_trigrams_of_before_goes(empty_url: str) -> None:
    engine = _engine(_parsed(empty_url), 30)
    dialect = engine.dialect.name
    async with engine.begin() as connection:
        await connection.run_sync(fill, "0011")
        for statement in TRIGRAMS[dialect]:
            await connection.execute(text(statement))
        assert (await connection.execute(text(NAMED[dialect]))).scalar_one()
    await engine.dispose()
    async with await HistoryStore.open(empty_url) as store:
        async with store.reading() as reading:
            assert (await reading.execute(text(NAMED[dialect]))).scalar_one() == 0
        assert await store.record(Record(ended(a_run(1))))
        assert [run.name for run in (await store.find(everything(text="JOB-1"))).runs] == ["job-1"]


async def test_opening_again_changes_nothing(empty_url: str) -> None:
    async with await HistoryStore.open(empty_url) as store:
        await store.record(Record(FULL))
    async with await HistoryStore.open(empty_url) as store:
        assert await store.get(FULL.identity) == FULL


def test_the_files_of_the_revisions_are_named_by_them_in_their_order() -> None:
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    walked = [each.revision for each in scripts.walk_revisions()]
    assert migrate.revisions() == walked[::-1]


@pytest.mark.parametrize("writable", [True, False], ids=["writer", "reader"])
@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
async def test_alembic_is_not_loaded_where_no_revision_is_missing(empty_url: str, writable: bool) -> None:
    await (await HistoryStore.open(empty_url)).close()
    program = f"""
import asyncio, sys
from fournos.history.store import HistoryStore
async def opened():
    await (await HistoryStore.open({empty_url!r}, writable={writable})).close()
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
    for writable in (True, False):
        with pytest.raises(StoreUsageError, match=r"later version of fournos \(revision 9999\)"):
            await HistoryStore.open(empty_url, writable=writable)


async def test_a_failed_migration_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = migrate.upgrade

    def killed(connection: Connection) -> None:
        upgrade(connection)
        raise ConnectionAbortedError("killed")

    monkeypatch.setattr(migrate, "upgrade", killed)
    with pytest.raises(Exception, match="killed"):
        await HistoryStore.open(empty_url)
    monkeypatch.undo()
    async with await HistoryStore.open(empty_url) as store:
        assert await store.record(Record(FULL))


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
async def test_a_reader_migrates_nothing(empty_url: str) -> None:
    with pytest.raises(StoreUsageError, match="earlier version"):
        await HistoryStore.open(empty_url, writable=False)


async def test_a_reader_writes_nothing(empty_url: str) -> None:
    async with await HistoryStore.open(empty_url) as store:
        await store.record(Record(FULL))
        async with await HistoryStore.open(empty_url, writable=False) as reader:
            assert isinstance(reader.database, Database)
            assert await reader.get(FULL.identity) == FULL
            with pytest.raises(StoreUsageError, match="reading only"):
                await reader.record(Record(FULL))


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


async def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUsageError, match="There is no database"):
        await HistoryStore.open(f"sqlite:///{tmp_path / 'missing.db'}", writable=False)
    assert not (tmp_path / "missing.db").exists()
