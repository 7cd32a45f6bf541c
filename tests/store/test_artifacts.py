"""Artifacts over the API, on both databases and both stores of blobs: sent, replaced, refused, deleted."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from fournos.history.api.server import _WRITES_OF_EACH
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import CHUNK, Blobs
from fournos.history.records import Identity, Record
from fournos.history.store import HistoryStore
from fournos.history.store.blobs import BlobRows
from fournos.history.store.retention import erase
from tests.history import a_run, at, ended
from tests.store.conftest import keys_of
from tests.store.s3_server import S3Server
from tests.store.served import served
from tests.unit.history.api.service import Reviews
from tests.waiting import until

RUN = "/apis/history.fournos.dev/v1/namespaces/perf/runs/job-1/artifacts"


@dataclass
class Stage:
    client: TestClient[Any, Any]
    store: HistoryStore
    blobs: Blobs

    async def send(self, path: str, content: bytes, **headers: str) -> tuple[int, Any]:
        given = {
            "Authorization": "Bearer t-ann",
            "X-Content-SHA256": hashlib.sha256(content).hexdigest(),
            **headers,
        }
        async with self.client.put(f"{RUN}/{path}", data=BytesIO(content), headers=given) as response:
            return response.status, await response.json()

    async def get(self, path: str = "") -> tuple[int, Any, Any]:
        headers = {"Authorization": "Bearer t-ann"}
        async with self.client.get(RUN + path, headers=headers) as response:
            body = await (response.read() if path and response.status == 200 else response.json())
            return response.status, body, response.headers

    async def files(self) -> list[str]:
        return await keys_of(self.blobs)


@pytest.fixture
async def stage(store: HistoryStore, blobs: Blobs) -> AsyncIterator[Stage]:
    reviews = Reviews()
    reviews.may("ann", "get", "update", resource="runs/artifacts")
    reviews.may("ann", "create", resource="runs/results")
    reviews.may("ann", "delete", "get")
    run = a_run(1, identity=Identity("here", "perf", "uid-1"), namespace_uid="uid-perf")
    await store.record(Record(run))
    limits = ArtifactLimits(files=5, bytes=10 * CHUNK)
    async with served(store, blobs, reviews, limits) as client:
        yield Stage(client, store, blobs)


async def test_a_file_of_several_chunks_comes_back_as_it_was_sent(stage: Stage) -> None:
    content = bytes(range(256)) * (CHUNK // 256 * 2 + 7)
    status, body = await stage.send("a%20b/plot.png", content)
    assert (status, body["path"], body["size"]) == (200, "a b/plot.png", len(content))
    status, found, headers = await stage.get("/a%20b/plot.png")
    assert (status, found) == (200, content)
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''plot.png"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert (await stage.get())[1] == [body]


async def test_the_same_file_again_is_stored_once_and_another_replaces_it(stage: Stage) -> None:
    first = await stage.send("log.txt", b"one")
    assert await stage.send("log.txt", b"one") == first
    assert len(await stage.files()) == 1
    await stage.send("log.txt", b"two")
    assert (await stage.get("/log.txt"))[1] == b"two"
    assert len(await stage.files()) == 1, "nothing refers to the first content any more"


async def test_what_is_cut_or_altered_on_the_way_leaves_nothing(stage: Stage) -> None:
    status, body = await stage.send("x", b"data", **{"X-Content-SHA256": "0" * 64})
    assert (status, body["reason"]) == (422, "Invalid")
    assert "checksum" in body["message"]
    assert not await stage.files()
    assert (await stage.get())[1] == []
    assert (await stage.send("x", b"data", **{"X-Content-SHA256": "nonsense"}))[0] == 422


@pytest.mark.parametrize(
    "path",
    [
        *("%2e%2e/x", "a/%2e%2e/%2e%2e/x", "a//x", "a%5Cx", "a%00x", "/x", "a/./x%0A", "x" * 600),
        # What a terminal obeys: escapes, C1 controls, and what turns the direction of text round.
        *("%1b]0;x%07", "a%c2%9b31m", "a/b%e2%80%aec"),
    ],
)
async def test_a_path_that_is_not_plain_is_refused(stage: Stage, path: str) -> None:
    status, _ = await stage.send(path, b"x")
    assert status in (404, 422)
    assert not await stage.files()


async def test_the_limits_of_a_run(stage: Stage) -> None:
    for name in "abcde":
        assert (await stage.send(name, name.encode()))[0] == 200
    status, body = await stage.send("f", b"f")
    assert (status, body["message"]) == (422, "the run has 5 artifacts, and at most 5 are kept")
    assert (await stage.send("c", b"again"))[0] == 200
    status, body = await stage.send("c", b"x" * (10 * CHUNK))
    assert status == 422
    assert "bytes of artifacts" in body["message"]


async def test_a_file_that_is_too_large_is_refused_before_any_of_it_is_sent(stage: Stage) -> None:
    server = stage.client.server
    reader, writer = await asyncio.open_connection(server.host, server.port)
    head = [
        f"PUT {RUN}/model.bin HTTP/1.1",
        "Host: history",
        "Authorization: Bearer t-ann",
        f"X-Content-SHA256: {hashlib.sha256().hexdigest()}",
        f"Content-Length: {10 * 2**30}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode())
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"\r\n")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 422"), answer
    assert not await stage.files()


@pytest.mark.parametrize("place", ["directory"], indirect=True)
async def test_few_files_of_a_namespace_are_received_at_once(stage: Stage) -> None:
    """Those that keep back their last byte hold no memory of others, and the rest is sent again later."""
    answers = Counter[bytes]()
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []
    for number in range(_WRITES_OF_EACH + 1):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.client.port)
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        head = f"PUT {RUN}/{number} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t-ann\r\n"
        writer.write(f"{head}X-Content-SHA256: {digest}\r\nContent-Length: 2\r\n\r\nx".encode())
        readers.append(reader)
        writers.append(writer)

    async def read(reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Retry-After: 2" in head
        answers[head.split()[1]] += 1

    tasks = [asyncio.create_task(read(reader)) for reader in readers]
    await until(lambda: answers[b"429"] == 1)
    assert answers.total() == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for writer in writers:
        writer.close()


async def test_a_namespace_takes_no_more_than_its_bytes(stage: Stage) -> None:
    """Artifacts and results together; what is refused leaves nothing, and a deleted run makes room."""
    stage.store.namespace_bytes = 1000
    other = a_run(2, identity=Identity("here", "perf", "uid-2"), namespace_uid="uid-perf")
    await stage.store.record(Record(ended(other)))
    assert await BlobRows(stage.store).claim_blob(other.identity, "uid-2/logs/0", 600)
    assert (await stage.send("a", b"a" * 300))[0] == 200
    status, body = await stage.send("b", b"b" * 101)
    assert (status, body["reason"]) == (507, "InsufficientStorage")
    assert "the namespace would have 0.0 MB" in body["message"]
    assert (await stage.send("a", b"a" * 300))[0] == 200, "what is stored already takes nothing more"
    results = b'[{"kpis": [{"kpi_id": "a", "value": 1}]}]'
    async with stage.client.post(
        RUN.replace("artifacts", "results"), data=results, headers={"Authorization": "Bearer t-ann"}
    ) as response:
        assert response.status == 507, await response.text()
    assert len(await stage.files()) == 1
    assert await erase(stage.store, stage.blobs, [other.identity], at(0)) == 1
    assert (await stage.send("b", b"b" * 101))[0] == 200


async def test_they_go_with_their_run(stage: Stage) -> None:
    await stage.send("log.txt", b"one")
    async with stage.client.delete(
        "/apis/history.fournos.dev/v1/namespaces/perf/runs/job-1", headers={"Authorization": "Bearer t-ann"}
    ) as response:
        assert response.status == 204
    assert not await stage.files()
    assert (await stage.get())[0] == 404


async def test_each_namespace_with_runs_is_found_once(store: HistoryStore) -> None:
    assert await store.namespaces() == []
    for number, (name, uid) in enumerate([("a", "1"), ("b", "2"), ("a", "1"), ("a", "3")]):
        identity = Identity("here", name, f"uid-{number}")
        await store.record(Record(a_run(number, identity=identity, namespace_uid=uid)))
    assert sorted(await store.namespaces()) == [("a", "1"), ("a", "3"), ("b", "2")]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("place", ["s3"], indirect=True)
async def test_a_bucket_that_is_gone_refuses_for_now(stage: Stage, s3_server: S3Server) -> None:
    content = bytes(range(256)) * (CHUNK // 256 * 2)
    await asyncio.to_thread(s3_server.kill)
    try:
        status, body = await stage.send("model.bin", content)
        assert (status, body["reason"]) == (503, "ServiceUnavailable")
        assert (await stage.get())[1] == []
    finally:
        await asyncio.to_thread(s3_server.start)
    assert (await stage.send("model.bin", content))[0] == 200
    assert (await stage.get("/model.bin"))[1] == content
