"""Whether the database of the history answers: what makes the process ready, and why it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from sqlalchemy import Connection

from fournos.app import run
from fournos.app.run import Served
from fournos.engine.kube.errors import ServerError
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Running
from fournos.history.part import PART
from fournos.history.recorder.database import LOOK, PATIENCE, DatabaseArchive
from fournos.history.recorder.steps import Journal, LoadOpen, executors
from fournos.history.records import Record
from fournos.history.settings import HistorySettings
from fournos.history.store import HistoryStore, StoreUnavailableError
from fournos.history.store.database import Database
from tests.unit.history.recorder.test_settings import a_run

UIDS = ("u0", "u1", "u2")
CLOSED = ["history: this replica has not opened the history's database"]


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncIterator[DatabaseArchive]:
    made = DatabaseArchive(f"sqlite:///{tmp_path / 'history.db'}")
    yield made
    await made.close()


async def test_it_is_ready_from_its_opening_to_its_end(archive: DatabaseArchive) -> None:
    assert archive.problems() == CLOSED
    await archive._look()
    assert archive.problems() == CLOSED, "a standby of SQLite opens nothing"
    await archive.get(a_run().identity)
    assert archive.problems() == []
    await archive._look()
    assert archive.problems() == []
    await archive.close()
    assert archive.problems() == CLOSED


async def test_open_runs_are_read_at_once(archive: DatabaseArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read for each of 10,000 open runs would hold up the start for tens of seconds."""
    journal = Journal()
    for row in map(a_run, UIDS):
        await archive.record(Record(row))
    reads = list[object]()
    read = Database.read

    async def counted(self: Database, work: Callable[[Connection], Any]) -> Any:
        reads.append(work)
        return await read(self, work)

    monkeypatch.setattr(Database, "read", counted)
    load_open = executors(archive, journal, lambda record, taken: None)[LoadOpen]
    await load_open(LoadOpen("c", "AppWrapper"), None)  # type: ignore[arg-type]
    assert len(reads) == 1
    assert all(journal.get(uid) for uid in UIDS)


async def test_a_volume_that_cannot_be_opened_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    volume = tmp_path / "volume"
    volume.write_text("no directory: root may open any that there is")
    archive = DatabaseArchive(f"sqlite:///{volume}/history.db")
    with pytest.raises(ServerError):
        await archive.get(a_run().identity)
    reason = f"The history's database {volume}/history.db cannot be opened: File exists"
    await archive._look()
    assert archive.problems() == [f"history: {reason}"], "not that it is not open: why"
    assert caplog.text.count(f"the store of the history does not answer: {reason}") == 1


async def test_a_database_that_answers_no_more_and_again(
    archive: DatabaseArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await archive.get(a_run().identity)

    async def silent(self: HistoryStore) -> None:
        raise StoreUnavailableError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(HistoryStore, "ping", silent)
        for _ in range(3):
            await archive._look()
    assert archive.problems() == ["history: disk I/O error"]
    assert caplog.text.count("disk I/O error") == 1, "each change is logged, not each look"
    await archive._look()
    assert archive.problems() == []


@pytest.mark.looptime
async def test_a_database_that_hangs_is_noticed_while_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = asyncio.Event()

    class Hanging:
        async def ping(self) -> None:
            await answers.wait()

        async def close(self) -> None: ...

    async def opened(url: str, **_: object) -> Hanging:
        return Hanging()

    monkeypatch.setattr(HistoryStore, "open", opened)
    archive = DatabaseArchive("postgresql://user:s3cret@db/history")
    looking = asyncio.create_task(archive.run())
    await asyncio.sleep(PATIENCE + 1)
    assert archive.problems() == [f"history: the history's database has not answered for {PATIENCE:g} s"]
    answers.set()
    await asyncio.sleep(LOOK)
    assert archive.problems() == []
    looking.cancel()
    with suppress(asyncio.CancelledError):
        await looking
    assert archive.problems() == CLOSED


async def test_of_postgresql_the_class_of_the_error_alone_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    archive = DatabaseArchive("postgresql://user:s3cret@127.0.0.1:1/history")
    await archive._look()
    problem = "the history's database does not answer (ConnectionRefusedError)"
    assert archive.problems() == [f"history: {problem}"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"the store of the history does not answer: {problem}"
    ]


@pytest.mark.parametrize(("webhooks", "status"), [(False, 503), (True, 200)])
async def test_the_process_is_ready_when_the_store_answers_unless_it_serves_webhooks(
    webhooks: bool, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve() -> None: ...

    monkeypatch.setenv("FOURNOS_HISTORY_DIRECTORY", str(tmp_path))
    running = PART.start(HistorySettings(), SystemClock(), Metrics(), lambda name, key: None)
    started = run._Started(Running([], problems=running.problems), None, None, {})
    shared = run._Shared(None, None, SystemClock(), Metrics(), 1, "x", "")  # type: ignore[arg-type]
    served = Served({"webhooks": serve}) if webhooks else Served()
    health = run._health([started], served, shared)
    async with TestClient(TestServer(health.app())) as client:
        answer = await client.get("/readyz")
        assert (answer.status, CLOSED[0] in await answer.text()) == (status, True)
        assert (await client.get("/healthz")).status == 200, "a restart would not help"
