"""Two recorders at the same time on one PostgreSQL and one bucket: nothing is lost, and nothing is twice."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from devcluster.postgres import Postgres
from fournos.history.artifacts import ArtifactLimits, Artifacts
from fournos.history.blobs import open_blobs
from fournos.history.logs.collector import lines_of
from fournos.history.records import Identity, Record
from fournos.history.store import HistoryStore
from fournos.history.store.blobs import BlobRows, LogRows
from fournos.history.store.schema import blobs as blob_table
from tests.history import a_run, ended
from tests.store.conftest import artifact_rows, keys_of
from tests.store.overlapping_recorder import EXPIRED, FILES, LINES, SHARED
from tests.store.s3_server import S3Server
from tests.store.test_review import measured

PROGRAM = "tests.store.overlapping_recorder"


async def prepare(store: HistoryStore, blobs: object) -> None:
    """The run of both, expired runs with blobs, and a regression in each of two clusters."""
    await store.record(Record(a_run(1, identity=SHARED, name="shared")))
    for number in range(EXPIRED):
        old = a_run(number, identity=Identity("here", "bench", f"old-{number}"))
        past = old.submitted_at - timedelta(days=60)
        await store.record(Record(ended(a_run(number, identity=old.identity, submitted_at=past))))
        await BlobRows(store).claim_blob(old.identity, f"old-{number}/logs/p/c/000000", 1)
        await blobs.write(f"old-{number}/logs/p/c/000000", b"x")  # type: ignore[attr-defined]
    for cluster in ("one", "two"):
        for number in (*range(12), *range(20, 26)):
            value = 100 + number % 3 if number < 20 else 60 + number % 3
            identity = Identity(cluster, "bench", f"{cluster}-{number}")
            await measured(store, number, value, identity=identity, namespace_uid=f"uid-of-{cluster}")


async def together(commands: list[list[str]]) -> None:
    """Starts the recorders, has all begin at once, and waits for their ends."""
    pipe = asyncio.subprocess.PIPE
    started = [await asyncio.create_subprocess_exec(*one, stdin=pipe, stdout=pipe) for one in commands]
    try:
        for one in started:
            assert one.stdout is not None
            assert await one.stdout.readline() == b"ready\n"
        for one in started:
            assert one.stdin is not None
            one.stdin.write(b"go\n")
        assert [await one.wait() for one in started] == [0] * len(started)
    finally:
        for one in started:
            if one.returncode is None:
                one.kill()
                await one.wait()


@pytest.mark.parametrize("clusters", [("one", "one"), ("one", "two")], ids=["an overlap", "two clusters"])
async def test_nothing_is_lost_and_nothing_is_twice(
    clusters: tuple[str, str], postgres: Postgres, s3_server: S3Server, s3_keys: None, tmp_path: Path
) -> None:
    url, place, sent = postgres.make_database(), s3_server.place(), tmp_path / "sent"
    blobs = open_blobs(place)
    async with await HistoryStore.open(url) as store:
        await prepare(store, blobs)
        command = [sys.executable, "-m", PROGRAM, url]
        rest = [str(sent), place]
        await together([[*command, cluster, *rest] for cluster in clusters])

        run = await store.get(SHARED)
        assert run is not None and run.message == "49"

        rows = LogRows(store)
        (log,) = await rows.logs(SHARED)
        packed = await blobs.read(await rows.key(SHARED, log.pod, log.container) or "")
        assert packed is not None and lines_of(packed).read().splitlines() == LINES

        artifacts = Artifacts(artifact_rows(store), blobs, ArtifactLimits())
        for path, contents in FILES.items():
            found = await artifacts.find(SHARED, path)
            assert found is not None
            assert b"".join([chunk async for chunk in artifacts.read(found[0])]) == contents[-1]

        named = sorted(row.key for row in await store.rows(select(blob_table.c.key)))
        assert await keys_of(blobs) == named, "each blob has its row, and each row its blob"
        assert not [key for key in named if key.startswith("old-")]
    messages = [line.split()[:2] for line in sent.read_text().splitlines()]
    # At least once: recorders of one cluster that overlap may both send a message, with the same id.
    assert {run for _, run in messages} == {f"{one}/bench/{one}-20" for one in set(clusters)}
    assert len(set(map(tuple, messages))) == len(set(clusters))
