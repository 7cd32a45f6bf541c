"""Files that are being sent: bounded together, for one run, for one namespace, and by the volume."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from fournos.history.artifacts import archive
from fournos.history.artifacts.archive import AT_ONCE, Artifacts
from fournos.history.artifacts.rules import ArtifactLimits
from fournos.history.blobs import DirectoryBlobs, Room
from fournos.history.records import Identity, Record
from fournos.history.store import HistoryStore
from tests.history import a_run, at
from tests.store.conftest import artifact_rows
from tests.store.served import served
from tests.unit.history.api.service import Reviews
from tests.waiting import until

PATH = "/apis/history.fournos.dev/v1/namespaces/perf/runs/job-1/artifacts"


class Volume(DirectoryBlobs):
    """A directory on a volume of 1,000 bytes."""

    free = 1000

    def _room(self) -> Room:
        return Room(1000, self.free)


@pytest.fixture
async def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path / "blobs")


@pytest.fixture
async def client(tmp_path: Path, volume: Volume) -> AsyncIterator[TestClient[Any, Any]]:
    reviews = Reviews()
    reviews.may("ann", "get", "update", resource="runs/artifacts")
    reviews.may("ann", "create", resource="runs/results")
    async with await HistoryStore.open(f"sqlite:///{tmp_path}/history.db") as store:
        run = a_run(1, identity=Identity("here", "perf", "uid-1"), namespace_uid="uid-perf")
        await store.record(Record(run))
        async with served(store, volume, reviews, ArtifactLimits(share=0.5)) as client:
            yield client


async def put(client: TestClient[Any, Any], path: str, content: bytes) -> tuple[int, str]:
    headers = {"Authorization": "Bearer t-ann", "X-Content-SHA256": hashlib.sha256(content).hexdigest()}
    async with client.put(f"{PATH}/{path}", data=content, headers=headers) as response:
        return response.status, str((await response.json()).get("message"))


async def test_few_files_of_a_run_are_received_at_once(client: TestClient[Any, Any]) -> None:
    """Those that keep back their last byte hold no memory of others, and the rest is sent again later."""
    answers = Counter[bytes]()
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []
    for number in range(3 * AT_ONCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        head = f"PUT {PATH}/{number} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t-ann\r\n"
        writer.write(f"{head}X-Content-SHA256: {digest}\r\nContent-Length: 2\r\n\r\nx".encode())
        readers.append(reader)
        writers.append(writer)

    async def read(reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Retry-After: 2" in head
        answers[head.split()[1]] += 1

    tasks = [asyncio.create_task(read(reader)) for reader in readers]
    await until(lambda: answers[b"429"] == 2 * AT_ONCE)
    assert answers.total() == 2 * AT_ONCE
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for writer in writers:
        writer.close()


async def test_a_volume_that_is_almost_full_takes_no_file(
    client: TestClient[Any, Any], volume: Volume
) -> None:
    assert (await put(client, "a", b"a" * 100))[0] == 200
    volume.free = 150
    status, message = await put(client, "b", b"b" * 51)
    assert (status, message.split(",")[1]) == (507, " and 10% of it stay free; delete runs")
    assert (await put(client, "b", b"b" * 50))[0] == 200
    results = PATH.replace("artifacts", "results")
    async with client.post(results, data=b"[]" * 50, headers={"Authorization": "Bearer t-ann"}) as response:
        assert response.status == 507


async def test_one_namespace_does_not_take_the_volume_of_all(client: TestClient[Any, Any]) -> None:
    assert (await put(client, "a", b"a" * 500))[0] == 200
    assert (await put(client, "a", b"a" * 500))[0] == 200, "what is stored already takes nothing more"
    # The sum from before the first file is used for some seconds; what has come since is added to it.
    both = await asyncio.gather(put(client, "b", b"b" * 300), put(client, "c", b"c" * 300))
    refused = [message for status, message in both if status == 507]
    assert refused and "the share of the namespace" in refused[0]
    status, message = await put(client, "d", b"d" * 501)
    assert (status, message.partition(",")[0]) == (422, "the file has 501 bytes"), "it will never fit"


async def test_what_has_come_of_a_file_counts_once(
    tmp_path: Path, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 500 bytes 300 are taken by a file of which 299 have come; another one has 200."""
    monkeypatch.setattr(archive, "CHUNK", 100)
    monkeypatch.setattr(archive, "_USED", 0.0)
    first, second = (a_run(number, identity=Identity("here", "perf", f"uid-{number}")) for number in (1, 2))
    two_chunks_came, rest = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"a" * 299
        two_chunks_came.set()
        await rest.wait()
        yield b"a"

    async def at_once() -> AsyncIterator[bytes]:
        yield b"b" * 200

    async with await HistoryStore.open(f"sqlite:///{tmp_path}/history.db") as store:
        for run in (first, second):
            await store.record(Record(run))
        artifacts = Artifacts(artifact_rows(store), volume, ArtifactLimits(share=0.5))

        async def receive(run: Identity, content: AsyncIterator[bytes], whole: bytes) -> None:
            digest = hashlib.sha256(whole).hexdigest()
            await artifacts.receive(run, "f", content, size=len(whole), sha256=digest, now=at(0))

        sending = asyncio.create_task(receive(first.identity, slowly(), b"a" * 300))
        await two_chunks_came.wait()
        await receive(second.identity, at_once(), b"b" * 200)
        rest.set()
        await sending
