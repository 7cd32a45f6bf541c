"""Databases: made by the migration once; gone, full, or written by a process that is killed."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from devcluster import DevclusterError
from devcluster.postgres import Postgres
from fournos.history.blobs import open_blobs
from fournos.history.records import Document, Record
from fournos.history.store import (
    HistoryStore,
    StoreFullError,
    StoreUnavailableError,
    StoreUsageError,
    database,
)
from fournos.history.store.retention import RetentionLimits, erase, expire
from fournos.history.store.schema import metadata
from tests.history import a_run, at, ended, everything
from tests.store.killed_writer import after, before
from tests.store.test_runs import FULL
from tests.store.volume import Volume


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True})
    return list(compare_metadata(context, metadata))


async def test_the_latest_revision_makes_the_tables_of_the_program(store: HistoryStore) -> None:
    assert await store.read(differences) == []


async def test_opening_again_changes_nothing(empty_url: str) -> None:
    async with await HistoryStore.open(empty_url) as store:
        await store.record(Record(FULL))
    async with await HistoryStore.open(empty_url) as store:
        assert await store.get(FULL.identity) == FULL


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
async def test_replicas_that_start_together_migrate_once(empty_url: str) -> None:
    stores = await asyncio.gather(*(HistoryStore.open(empty_url) for _ in range(4)))
    assert await stores[0].record(Record(FULL))
    assert await stores[3].get(FULL.identity) == FULL
    for store in stores:
        await store.close()


async def test_a_later_version_of_the_tables_is_refused(empty_url: str) -> None:
    async with await HistoryStore.open(empty_url) as store:
        await store.execute(text("UPDATE alembic_version SET version_num = '9999'"))
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


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_postgresql_gone_and_back(store: HistoryStore, postgres: Postgres, how: str) -> None:
    assert await store.record(Record(a_run(1)))
    await asyncio.to_thread(postgres.stop if how == "stop" else postgres.kill)
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                await store.record(Record(a_run(2)))
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                await store.find(everything())
    finally:
        await asyncio.to_thread(postgres.start)
    assert await store.record(Record(a_run(2)))
    assert [run.name for run in (await store.find(everything())).runs] == ["job-2", "job-1"]


async def test_sqlite_that_another_process_holds(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with await HistoryStore.open(f"sqlite:///{path}", busy_seconds=0.1) as store:
        await store.record(Record(a_run(1)))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="database is locked"):
            await store.record(Record(a_run(2)))
        assert await store.get(a_run(1).identity), "who only reads does not wait"
        other.execute("ROLLBACK")
        other.close()
        assert await store.record(Record(a_run(2)))


async def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = database._prepare_sqlite

    def small(connection: Any, record: Any) -> None:
        prepare(connection, record)
        connection.cursor().execute("PRAGMA max_page_count = 120")

    monkeypatch.setattr(database, "_prepare_sqlite", small)
    async with await HistoryStore.open(f"sqlite:///{tmp_path / 'history.db'}") as store:
        stored = 0
        with pytest.raises(StoreFullError, match="no space left"):
            while True:
                noise = {Document.OBJECT: os.urandom(5_000).hex()}
                await store.record(Record(ended(a_run(stored)), documents=noise))
                stored += 1
        assert 10 < stored < 100
        runs = (await store.find(everything(limit=500))).runs
        assert len(runs) == stored, "what did not fit is not there by half"
        assert await store.document(runs[0].identity, Document.OBJECT) is not None
        assert (
            await expire(store, open_blobs(str(tmp_path)), RetentionLimits(runs=5), at(10_000)) == stored - 5
        )
        assert await store.record(Record(a_run(1000), documents={Document.OBJECT: os.urandom(5_000).hex()}))


async def test_a_volume_without_a_byte_left() -> None:
    """Nothing can be deleted either, as SQLite writes what it deletes; all of it goes on with some room."""
    try:
        volume = Volume()
    except DevclusterError as error:
        pytest.skip(str(error))
    noise = {Document.OBJECT: os.urandom(50_000).hex()}
    limits = RetentionLimits(runs=5)
    try:
        async with await HistoryStore.open(volume.url) as store:
            for number in range(10):
                await store.record(Record(ended(a_run(number)), documents=noise))
            volume.take_away()
            stored = 10
            with pytest.raises(StoreFullError, match="no space left"):
                while True:
                    await store.record(Record(ended(a_run(stored)), documents=noise))
                    stored += 1
            with pytest.raises(StoreFullError, match="no space left"):
                await expire(store, open_blobs(str(volume.directory)), limits, at(10_000))
            assert len((await store.find(everything(limit=500))).runs) == stored, "it stays readable"
            volume.give_back()
            assert await expire(store, open_blobs(str(volume.directory)), limits, at(10_000)) == stored - 5
            assert await store.record(Record(a_run(1000), documents=noise))
        assert volume.damages() == []
    finally:
        volume.close()


async def test_a_writer_killed_before_any_statement(empty_url: str) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.store.killed_writer", empty_url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
    )
    codes = [int(line.split()[1]) for line in done.stdout.splitlines()]
    assert codes == [-9] * (len(codes) - 1) + [0], done.stderr
    assert len(codes) > 7, "the update has this many statements at least"
    async with await HistoryStore.open(empty_url) as store:
        states = []
        for number in range(1, len(codes) + 1):
            run = await store.get(a_run(number).identity)
            assert run is not None
            record = before(number) if run == before(number).run else after(number)
            assert run == record.run
            for name in Document:
                assert await store.document(run.identity, name) == record.documents.get(name)
            states.append(run.labels["state"])
            assert await store.record(after(number)), "the update is made again"
        assert states == ["before"] * (len(codes) - 1) + ["after"]
        if store.database.dialect == "sqlite":
            assert await store.rows(text("PRAGMA integrity_check")) == [("ok",)]
            assert await store.rows(text("PRAGMA foreign_key_check")) == []


async def test_a_cancelled_write_leaves_the_store_usable(store: HistoryStore) -> None:
    source = random.Random(3)
    for number in range(30):
        writing = asyncio.create_task(store.record(after(number)))
        for _ in range(source.randrange(12)):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
    for number in range(30):
        run = await store.get(a_run(number).identity)
        if run is not None:
            assert await store.document(run.identity, Document.OBJECT) == {"state": "after"}
    assert await store.record(after(99))


async def test_the_newest_state_stays_whatever_the_order(url: str) -> None:
    stores = [await HistoryStore.open(url)]
    if stores[0].database.dialect == "postgresql":
        stores.append(await HistoryStore.open(url))
    versions = [a_run(1, resource_version=version, phase=f"phase-{version}") for version in range(20)]
    random.Random(4).shuffle(versions)
    # Each is tried again, as a recorder does, when another transaction was in its way.
    writes = [stores[index % len(stores)].record(Record(run)) for index, run in enumerate(versions)]
    await asyncio.gather(*writes)
    stored = await stores[0].get(a_run(1).identity)
    assert stored is not None
    assert stored.phase == "phase-19"
    for store in stores:
        await store.close()


async def test_two_processes_write_sqlite_in_turns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    async with await HistoryStore.open(url) as store, await HistoryStore.open(url) as other:
        await asyncio.gather(*((store, other)[n % 2].record(Record(a_run(n))) for n in range(20)))
        assert len((await store.find(everything())).runs) == 20


async def test_a_run_deleted_while_it_is_recorded(store: HistoryStore, tmp_path: Path) -> None:
    run = a_run(1)
    await store.record(Record(run))
    later = [store.record(Record(replace(run, resource_version=version))) for version in range(200, 210)]
    await asyncio.gather(erase(store, open_blobs(str(tmp_path)), [run.identity], at(0)), *later)
    assert await store.get(run.identity) is None
    assert not await store.record(Record(ended(run, after=1, resource_version=999)))
