"""A backup is a whole history, and is restored into either database."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devcluster.postgres import Postgres
from fournos.cli.app import build
from fournos.history.blobs import BlobsFullError, DirectoryBlobs, Room, open_blobs
from fournos.history.records import Document, Identity, Interval, Record
from fournos.history.store import HistoryStore, StoreUsageError
from fournos.history.store.backup import backup, restore
from fournos.history.store.retention import erase
from fournos.insight.causes import Cause
from tests.history import a_run, at, ended, everything
from tests.store.conftest import keys_of
from tests.store.s3_server import S3Server
from tests.store.test_store import FULL


async def fill(store: HistoryStore, files: DirectoryBlobs) -> None:
    waits = (Interval(at(7), None, Cause.LOCK, "held"),)
    await store.record(Record(FULL, waits, {Document.OBJECT: {"spec": {"owner": "alice"}}}))
    await store.record(Record(ended(a_run(1))))
    await store.record(Record(a_run(2)))
    await store.keep(FULL.identity, True, by="alice", reason="baseline", now=at(0))
    await erase(store, files, [a_run(1).identity], at(0))


async def holds_all(store: HistoryStore) -> None:
    assert (await store.find(everything())).runs == (FULL, a_run(2))
    assert (await store.find(everything(text="job-2"))).runs == (a_run(2),)
    assert await store.waits(FULL.identity) == (Interval(at(7), None, Cause.LOCK, "held"),)
    assert await store.document(FULL.identity, Document.OBJECT) == {"spec": {"owner": "alice"}}
    assert await store.kept([FULL.identity]) == {FULL.identity}
    assert not await store.record(Record(ended(a_run(1)))), "it was deleted"
    assert await store.record(Record(ended(a_run(3)))), "new rows get numbers of their own"


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*backup*")]


@pytest.fixture
async def other(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres) -> str:
    """The URL of another empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'other.db'}"
    return postgres.make_database()


@pytest.mark.parametrize("other", ["sqlite", "postgresql"], indirect=True)
async def test_there_and_back(store: HistoryStore, other: str, tmp_path: Path) -> None:
    await fill(store, DirectoryBlobs(tmp_path / "blobs"))
    await backup(store.database, tmp_path / "backup.db")
    assert leftovers(tmp_path) == ["backup.db"]
    async with await HistoryStore.open(other) as restored:
        await restore(restored.database, tmp_path / "backup.db")
        await holds_all(restored)
        with pytest.raises(StoreUsageError, match="The history is not empty"):
            await restore(restored.database, tmp_path / "backup.db")


async def test_a_backup_beside_a_writer_is_one_state(store: HistoryStore, tmp_path: Path, url: str) -> None:
    written = 0
    enough, stop = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        nonlocal written
        while not stop.is_set():
            waits = (Interval(at(written), None, Cause.LOCK, str(written)),)
            await store.record(Record(a_run(written), waits, {Document.OBJECT: {"number": written}}))
            written += 1
            if written == 20:
                enough.set()

    writer = asyncio.create_task(write())
    await enough.wait()
    async with await HistoryStore.open(url, writable=False) as reader:
        await backup(reader.database, tmp_path / "backup.db")
    stop.set()
    await writer
    async with await HistoryStore.open(f"sqlite:///{tmp_path / 'backup.db'}") as copy:
        runs = (await copy.find(everything(limit=500))).runs
        assert 20 <= len(runs) <= written
        for run in runs:
            number = int(run.name.removeprefix("job-"))
            assert [wait.text for wait in await copy.waits(run.identity)] == [str(number)]
            assert await copy.document(run.identity, Document.OBJECT) == {"number": number}


async def test_what_is_no_backup_is_refused(store: HistoryStore, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look like one" * 100)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("text", "empty", "missing"):
        with pytest.raises(StoreUsageError, match=f"{name} is not a backup"):
            await restore(store.database, tmp_path / name)
    await store.record(Record(a_run(1)))
    with pytest.raises(StoreUsageError, match="exists already"):
        await backup(store.database, tmp_path / "text")
    assert await store.get(a_run(1).identity)


async def test_a_restore_that_fails_leaves_the_history_empty(
    store: HistoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await HistoryStore.open(f"sqlite:///{tmp_path / 'source.db'}") as source:
        await fill(source, DirectoryBlobs(tmp_path))
        await backup(source.database, tmp_path / "backup.db")
        async with source.writing() as connection:
            await connection.exec_driver_sql("DELETE FROM runs")
    monkeypatch.setattr(
        "fournos.history.store.backup._batches", lambda _source, table: iter([[{"no": table}]])
    )
    with pytest.raises(Exception, match=r"(?i)null"):
        await restore(store.database, tmp_path / "backup.db")
    monkeypatch.undo()
    assert (await store.find(everything())).runs == ()
    await restore(store.database, tmp_path / "backup.db")
    await holds_all(store)


class Program:
    """`fournos history …` on one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self._variables = {
            "FOURNOS_HISTORY_URL": url,
            "FOURNOS_HISTORY_DIRECTORY": str(folder),
            "COLUMNS": "200",
        }

    async def __call__(self, *words: str, code: int = 0) -> str:
        invoke = CliRunner(env={**self._variables, "FOURNOS_OWNER": "alice"}).invoke
        done = await asyncio.to_thread(invoke, build(), ["history", *words])
        assert done.exit_code == code, done.output
        return done.output


@pytest.fixture
async def program(url: str, tmp_path: Path) -> Program:
    """On a history with an open run and two ended ones, one of them marked."""
    async with await HistoryStore.open(url) as store:
        await fill(store, DirectoryBlobs(tmp_path / "blobs"))
        await store.record(Record(ended(a_run(4, owner="bob"))))
    return Program(url, tmp_path)


async def names(url: str) -> set[str]:
    async with await HistoryStore.open(url, writable=False) as store:
        return {run.name for run in (await store.find(everything())).runs}


async def test_the_commands_back_up_and_restore(program: Program, url: str, tmp_path: Path) -> None:
    file = str(tmp_path / "backup.db")
    assert "bytes" in await program("backup", file)
    assert "exists already" in await program("backup", file, code=2)
    assert "not empty" in await program("restore", file, code=2)
    moved = f"sqlite:///{tmp_path / 'moved.db'}"
    assert "is restored" in await Program(moved, tmp_path)("restore", file)
    assert await names(moved) == await names(url)


async def test_delete_lists_first_and_spares_marked_runs(program: Program, url: str) -> None:
    listed = await program("delete", "--older-than", "1d")
    assert "job-4" in listed
    assert "job-7" not in listed, "it has a mark"
    assert "job-2" not in listed, "it is open"
    assert "1 runs; --yes deletes them" in listed
    assert await names(url) == {"job-2", "job-4", "job-7"}
    assert "1 runs are deleted" in await program("delete", "--older-than", "1d", "--yes")
    assert await names(url) == {"job-2", "job-7"}
    assert "1 runs are deleted" in await program("delete", "job-7", "--kept", "--yes")
    assert await names(url) == {"job-2"}


async def test_delete_takes_the_runs_of_one_cluster(program: Program, url: str) -> None:
    far = a_run(9, identity=Identity("far", "bench", "uid-9"))
    async with await HistoryStore.open(url) as store:
        await store.record(Record(ended(far)))
    words = ("delete", "--older-than", "1d", "--kept", "--yes")
    assert "Runs of 2 clusters match" in await program(*words, code=2)
    assert await names(url) == {"job-2", "job-4", "job-7", "job-9"}
    assert "1 runs are deleted" in await program(*words, "--cluster", "far")
    assert await names(url) == {"job-2", "job-4", "job-7"}


async def test_delete_needs_a_selection_and_something_to_delete(program: Program) -> None:
    assert "Nothing selects" in await program("delete", "--yes", code=2)
    assert "--older-than" in await program("delete", "--older-than", "soon", code=2)
    assert "No ended run matches" in await program("delete", "--owner", "carol", code=5)
    assert "No ended run matches" in await program("delete", "--owner", "bob", "-n", "elsewhere", code=5)


async def test_keep_marks_one_run(program: Program, url: str) -> None:
    assert "bench/job-4 is kept" in await program("keep", "job-4", "--reason", "record")
    assert "No ended run matches" in await program("delete", "job-4", code=5)
    assert "bench/job-4 may expire" in await program("keep", "job-4", "--off")
    assert "No run of the name" in await program("keep", "job-5", code=5)
    async with await HistoryStore.open(url) as store:
        await store.record(Record(ended(a_run(5), name="ignored", resource_version=1)))
        await store.record(Record(a_run(6, name="job-4")))
    assert "2 runs have the name job-4" in await program("keep", "job-4", code=2)
    assert "is kept" in await program("keep", "job-4", "--uid", "uid-6")


async def test_vacuum_deletes_files_without_a_run_when_it_is_asked(program: Program, tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path / "blobs")
    await blobs.write("no-run/logs/0", b"x")
    os.utime(tmp_path / "blobs" / "no-run" / "logs" / "0", (0, 0))
    await program("vacuum")
    assert await blobs.read("no-run/logs/0") == b"x"
    assert "1 files without a run are deleted" in await program("vacuum", "--orphans")
    assert await blobs.read("no-run/logs/0") is None


@pytest.mark.usefixtures("s3_keys")
async def test_logs_and_artifacts_move_into_a_bucket_and_back(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_S3_ENDPOINT", s3_server.endpoint)
    place = s3_server.place()
    here, bucket = DirectoryBlobs(tmp_path / "blobs"), open_blobs(place)
    run, url = Program("", tmp_path), f"s3://{place.bucket}/{place.prefix}"
    for number in range(20):
        await here.write(f"run/logs/{number:06}", bytes([number]) * number)
    assert "20 files, 190 bytes copied; 0 were" in await run("copy", str(tmp_path / "blobs"), url)
    await bucket.delete(["run/logs/000003"])
    await here.write("run/logs/000005", b"with a line more")
    assert "2 files, 19 bytes copied; 18 were" in await run("copy", str(tmp_path / "blobs"), url)
    assert await bucket.read("run/logs/000005") == b"with a line more"
    assert "20 files" in await run("copy", url, str(tmp_path / "back"))
    back = DirectoryBlobs(tmp_path / "back")
    assert await keys_of(back) == await keys_of(here)
    for key in await keys_of(here):
        assert await back.read(key) == await here.read(key)
    message = await run("copy", "s3://no-such-bucket", str(tmp_path / "back"), code=2)
    assert "create the bucket" in message
    assert "s3://bucket" in await run("copy", "gs://bucket", url, code=2)


async def test_a_copy_fills_a_volume_that_the_recorder_leaves_alone_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await DirectoryBlobs(tmp_path / "blobs").write("run/logs/000000", b"x")
    monkeypatch.setattr(DirectoryBlobs, "_room", lambda self: Room(10**9, 99 * 10**6))
    with pytest.raises(BlobsFullError):
        await DirectoryBlobs(tmp_path / "back").write("run/logs/000000", b"x")
    found = await Program("", tmp_path)("copy", str(tmp_path / "blobs"), str(tmp_path / "back"))
    assert "1 files, 1 bytes copied" in found
    assert "99 MB of 1000 MB are free" in found


async def test_vacuum_tells_the_sizes(program: Program) -> None:
    assert "bytes before" in await program("vacuum")


async def test_settings_and_urls_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Program("mysql://x", tmp_path)
    assert "sqlite:///… or postgresql://…" in await broken("vacuum", code=2)
    monkeypatch.setenv("FOURNOS_HISTORY_RETENTION_DAYS", json.dumps(-1))
    assert "FOURNOS_HISTORY_RETENTION_DAYS" in await broken("vacuum", code=2)
