"""The commands `fournos history keep` and `delete`, on a database of either kind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fournos.cli.app import build
from fournos.history.blobs import open_blobs
from fournos.history.records import Identity, Record
from fournos.history.store import HistoryStore
from fournos.history.store.retention import erase
from tests.history import a_run, at, ended, everything
from tests.store.test_store import FULL


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


async def names(url: str) -> set[str]:
    async with await HistoryStore.open(url) as store:
        return {run.name for run in (await store.find(everything())).runs}


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


async def test_settings_and_urls_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Program("mysql://x", tmp_path)
    assert "sqlite:///… or postgresql://…" in await broken("keep", "job-4", code=2)
    monkeypatch.setenv("FOURNOS_HISTORY_RETENTION_DAYS", json.dumps(-1))
    assert "FOURNOS_HISTORY_RETENTION_DAYS" in await broken("keep", "job-4", code=2)
