"""What expires, what a person keeps and deletes; rows and files go together."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from obstore.store import LocalStore
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select
from typer.testing import CliRunner

from fournos.cli.app import build
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import RUNTIME, Metrics
from fournos.history.blobs import Blobs, open_blobs
from fournos.history.metrics import METRICS
from fournos.history.records import Document, Identity, KeepMark, Record, Run
from fournos.history.store import HistoryStore, schema
from fournos.history.store.blobs import BlobRows
from fournos.history.store.retention import RetentionLimits, erasable, erase, expire, keep_within, report
from tests.history import CLUSTER, a_run, at, ended, everything
from tests.store.test_runs import FULL

DAY = 86_400
NEVER = RetentionLimits()


@pytest.fixture
def files(tmp_path: Path) -> Blobs:
    return open_blobs(str(tmp_path / "blobs"))


async def names(store: HistoryStore) -> set[str]:
    return {run.name for run in (await store.find(everything())).runs}


async def record(store: HistoryStore, *runs: Run) -> None:
    for run in runs:
        assert await store.record(Record(run))


async def test_by_age_of_the_end(store: HistoryStore, files: Blobs) -> None:
    old, young = ended(a_run(1), after=60), ended(a_run(2), after=5 * DAY)
    still_open = a_run(3)
    await record(store, old, young, still_open)
    limits = RetentionLimits(age=timedelta(days=90))
    assert await expire(store, files, limits, at(60) + timedelta(days=90)) == 0
    assert await expire(store, files, limits, at(62) + timedelta(days=90)) == 1
    assert await names(store) == {"job-2", "job-3"}
    assert await expire(store, files, limits, at(1000 * DAY)) == 1
    assert await names(store) == {"job-3"}, "an open run never expires"


async def test_without_limits_nothing_expires(store: HistoryStore, files: Blobs) -> None:
    await record(store, ended(a_run(1)))
    assert await expire(store, files, NEVER, at(10_000 * DAY)) == 0


async def test_by_number_in_each_namespace(store: HistoryStore, files: Blobs) -> None:
    here = [ended(a_run(number)) for number in range(5)]
    there = [ended(a_run(number, namespace_uid="other")) for number in range(5, 7)]
    await record(store, *here, *there, a_run(8))
    assert await expire(store, files, RetentionLimits(runs=2), at(DAY)) == 3
    assert await names(store) == {"job-3", "job-4", "job-5", "job-6", "job-8"}


async def test_a_mark_keeps_a_run(store: HistoryStore, files: Blobs) -> None:
    run = ended(a_run(1))
    await record(store, run, ended(a_run(2)))
    assert await store.keep(run.identity, True, by="alice", reason="baseline of 1.0", now=at(0))
    assert await store.keep(run.identity, True, by="bob", reason="again", now=at(1))
    marked = await store.detail(everything(uid=run.identity.uid))
    assert marked is not None and marked.kept == KeepMark("bob", at(1), "again")
    every = RetentionLimits(timedelta(0), 0)
    assert await expire(store, files, every, at(1000 * DAY)) == 1
    assert await names(store) == {"job-1"}
    assert await store.keep(run.identity, False, by="bob", reason="", now=at(2))
    released = await store.detail(everything(uid=run.identity.uid))
    assert released is not None and released.kept is None
    assert await expire(store, files, every, at(1000 * DAY)) == 1


async def test_an_end_in_the_future_expires_by_the_observation(store: HistoryStore, files: Blobs) -> None:
    run = replace(ended(a_run(1), after=36_500 * DAY), observed_at=at(60))
    await record(store, run)
    assert await expire(store, files, RetentionLimits(age=timedelta(days=90)), at(91 * DAY)) == 1


async def test_what_was_deleted_is_not_recorded_again(store: HistoryStore, files: Blobs) -> None:
    expired, erased, other = (ended(a_run(number)) for number in range(3))
    await record(store, expired)
    await expire(store, files, RetentionLimits(age=timedelta(0)), at(DAY))
    await record(store, erased, other)
    assert await erase(store, files, [erased.identity], at(DAY)) == 1
    assert not await store.record(Record(expired))
    assert not await store.record(Record(erased))
    assert await names(store) == {other.name}
    # After a year without the run, it could only be an object that still exists, and it expires at once.
    await expire(store, files, NEVER, at(400 * DAY))
    assert await store.record(Record(expired))
    assert not await store.record(Record(erased)), "what a person deleted stays deleted"


async def test_everything_of_a_run_goes_with_it(store: HistoryStore, files: Blobs) -> None:
    run, other = ended(a_run(1, labels={"a": "b"})), ended(a_run(2))
    for each in (run, other):
        await store.record(Record(each, documents={Document.OBJECT: {}}))
        key = f"{each.identity.uid}/log/0"
        assert await BlobRows(store).claim_blob(each.identity, key, 3)
        await files.write(key, b"log")
    assert await erase(store, files, [run.identity], at(0)) == 1
    for table in schema.metadata.sorted_tables:
        if "run_id" in table.c:
            left = select(table).where(table.c.run_id.is_distinct_from(await number(store, other)))
            assert await store.rows(left) == [], table.name
    assert await files.read("uid-1/log/0") is None
    assert await files.read("uid-2/log/0") == b"log"


async def number(store: HistoryStore, run: Run) -> int:
    (row,) = await store.rows(select(schema.runs.c.id).where(schema.runs.c.uid == run.identity.uid))
    return int(row.id)


class FailingBlobs(Blobs):
    """Ends like a process that is killed between the deletion of the rows and that of the files."""

    async def delete(self, keys: Sequence[str]) -> None:
        raise ConnectionAbortedError("killed")


async def test_files_are_found_again_after_a_crash(store: HistoryStore, files: Blobs, tmp_path: Path) -> None:
    run = ended(a_run(1))
    await record(store, run)
    await BlobRows(store).claim_blob(run.identity, "run-1/log", 3)
    await files.write("run-1/log", b"log")
    with pytest.raises(ConnectionAbortedError):
        await erase(store, FailingBlobs("blobs", LocalStore(tmp_path / "blobs")), [run.identity], at(0))
    assert await names(store) == set()
    assert await files.read("run-1/log") == b"log"
    await expire(store, files, NEVER, at(0))
    assert await files.read("run-1/log") is None


async def test_no_blob_is_claimed_for_a_run_that_is_gone(store: HistoryStore) -> None:
    assert not await BlobRows(store).claim_blob(a_run().identity, "a", 1)


async def test_a_number_is_not_given_again(store: HistoryStore, files: Blobs) -> None:
    await record(store, a_run(1))
    first = await number(store, a_run(1))
    await erase(store, files, [a_run(1).identity], at(0))
    await record(store, a_run(2))
    assert await number(store, a_run(2)) > first


async def test_a_query_to_delete_spares_open_and_marked_runs(store: HistoryStore) -> None:
    await record(store, *(ended(a_run(number)) for number in range(3)), a_run(3))
    await store.keep(a_run(0).identity, True, by="alice", reason="", now=at(0))
    assert {run.name for run in await erasable(store, everything(), with_marked=False)} == {"job-1", "job-2"}
    assert len(await erasable(store, everything(), with_marked=True)) == 3


class RefusingBlobs(Blobs):
    """Refuses once, like a volume that is gone for a moment."""

    refused = False

    async def delete(self, keys: Sequence[str]) -> None:
        if not self.refused:
            self.refused = True
            raise OSError("no volume")
        await super().delete(keys)


async def test_the_retention_goes_on_after_a_failure(
    store: HistoryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics([*RUNTIME, *METRICS])
    await record(store, ended(a_run(1)))
    await BlobRows(store).claim_blob(a_run(1).identity, "run-1/log", 3)
    files = RefusingBlobs("blobs", LocalStore(tmp_path))
    keeping = asyncio.create_task(
        keep_within(
            store,
            files,
            RetentionLimits(age=timedelta(0)),
            metrics,
            SystemClock(),
            cluster=lambda: CLUSTER,
            interval=0.01,
        )
    )
    while b"fournos_history_database_bytes 0.0" in metrics.render():  # noqa: ASYNC110 - metrics have no event
        await asyncio.sleep(0.01)
    keeping.cancel()
    assert "tried again in 0 s: no volume" in caplog.text
    assert await names(store) == set()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_nothing_of_a_deleted_run_stays_in_sqlites_files(
    store: HistoryStore, files: Blobs, tmp_path: Path
) -> None:
    await record(store, ended(a_run(1, owner="very-particular-owner", labels={"l": "very-particular-label"})))
    await store.record(Record(a_run(2)))
    assert on_disk(tmp_path, b"very-particular-owner")
    await erase(store, files, [a_run(1).identity], at(0))
    assert not on_disk(tmp_path, b"very-particular-")


def on_disk(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.glob("history.db*"))


async def test_space_is_given_back(store: HistoryStore, files: Blobs) -> None:
    for index in range(40):
        noise = {Document.OBJECT: os.urandom(20_000).hex()}
        await store.record(Record(ended(a_run(index)), documents=noise))
    full = await store.database.size()
    assert full > 800_000
    assert await expire(store, files, RetentionLimits(runs=2), at(DAY)) == 38
    await store.database.tidy()
    if store.database.dialect == "sqlite":
        assert await store.database.size() < full / 4
    assert await names(store) == {"job-38", "job-39"}


async def test_sizes_are_metrics(store: HistoryStore) -> None:
    metrics = Metrics([*RUNTIME, *METRICS])
    store.namespace_bytes = 5000
    noise = {Document.OBJECT: os.urandom(2_000).hex()}
    for _ in range(2):
        await store.record(Record(ended(a_run(0)), documents=noise))
    await record(store, ended(a_run(1)))
    size = (await store.rows(select(schema.documents.c.size)))[0].size
    await BlobRows(store).claim_blob(a_run(0).identity, "a", 100)
    await report(store, metrics, CLUSTER, expired=3)
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name.startswith("fournos_history")
    }
    assert found["fournos_history_runs"] == 2
    assert found["fournos_history_namespace_bytes"] == 100 + size > 2_000
    assert found["fournos_history_namespace_limit_bytes"] == 5000
    assert found["fournos_history_expired_total"] == 3
    assert found["fournos_history_database_bytes"] > 10_000


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
    """On a history with an open run and two ended ones, one of them marked; another was deleted."""
    async with await HistoryStore.open(url) as store:
        for run in (FULL, ended(a_run(1)), a_run(2), ended(a_run(4, owner="bob"))):
            await store.record(Record(run))
        await store.keep(FULL.identity, True, by="alice", reason="baseline", now=at(0))
        await erase(store, open_blobs(str(tmp_path / "blobs")), [a_run(1).identity], at(0))
    return Program(url, tmp_path)


async def names_in(url: str) -> set[str]:
    async with await HistoryStore.open(url) as store:
        return {run.name for run in (await store.find(everything())).runs}


async def test_delete_lists_first_and_spares_marked_runs(program: Program, url: str) -> None:
    listed = await program("delete", "--older-than", "1d")
    assert "job-4" in listed
    assert "job-7" not in listed, "it has a mark"
    assert "job-2" not in listed, "it is open"
    assert "1 runs; --yes deletes them" in listed
    assert await names_in(url) == {"job-2", "job-4", "job-7"}
    assert "1 runs are deleted" in await program("delete", "--older-than", "1d", "--yes")
    assert await names_in(url) == {"job-2", "job-7"}
    assert "1 runs are deleted" in await program("delete", "job-7", "--kept", "--yes")
    assert await names_in(url) == {"job-2"}


async def test_delete_takes_the_runs_of_one_cluster(program: Program, url: str) -> None:
    far = a_run(9, identity=Identity("far", "bench", "uid-9"))
    async with await HistoryStore.open(url) as store:
        await store.record(Record(ended(far)))
    words = ("delete", "--older-than", "1d", "--kept", "--yes")
    assert "Runs of 2 clusters match" in await program(*words, code=2)
    assert await names_in(url) == {"job-2", "job-4", "job-7", "job-9"}
    assert "1 runs are deleted" in await program(*words, "--cluster", "far")
    assert await names_in(url) == {"job-2", "job-4", "job-7"}


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


async def test_settings_and_urls_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Program("mysql://x", tmp_path)
    assert "sqlite:///… or postgresql://…" in await broken("keep", "job-4", code=2)
    monkeypatch.setenv("FOURNOS_HISTORY_RETENTION_DAYS", json.dumps(-1))
    assert "FOURNOS_HISTORY_RETENTION_DAYS" in await broken("keep", "job-4", code=2)
