"""Logs in both databases and both stores of blobs: stored, read by the client, gone with their run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from fournos.client.errors import NoLogError, NotAllowedError
from fournos.client.history import AsyncHistory
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.resource import Key
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import Blobs
from fournos.history.logs.collector import LogCollector
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Identity, Record
from fournos.history.store import HistoryStore
from fournos.history.store.blobs import LogRows
from fournos.history.store.retention import RetentionLimits, expire
from tests.history import a_run, at, ended
from tests.store.conftest import keys_of
from tests.store.s3_server import S3Server
from tests.store.served import served
from tests.unit.history.api.service import Reviews
from tests.unit.history.logs.stage import Kubelet, container
from tests.waiting import until

IDENTITY = Identity("here", "perf", "00000000-0000-0000-0000-000000000001")
FETCH = container("step-fetch", pod="p1", task="prepare")
BENCH = replace(
    container("step-run", pod="p2", task="bench", code=2), started_at=FETCH.started_at + timedelta(seconds=9)
)
CLEAN = replace(BENCH, container="step-clean", position=1, exit_code=0)
RESOLVER = container("resolve", pod="p0", task="resolver", attempt=0)
LATER = container("step-run", pod="p3", task="bench", attempt=2)


@dataclass
class Stage:
    client: TestClient[Any, Any]
    store: HistoryStore
    blobs: Blobs
    collector: LogCollector
    kubelet: Kubelet

    async def end(self, one: ContainerLog, *lines: str) -> None:
        """The container ends after these lines; its log is stored."""
        self.print(one, *lines)
        await until(lambda: one.id in self.collector.stored(IDENTITY.uid), "the log is not stored")

    def print(self, one: ContainerLog, *lines: str) -> None:
        self.kubelet.print(one, *lines)
        server: Any = self.kubelet
        self.collector.store(Key("perf", "job-1"), IDENTITY, [one], server)

    def api(self, token: str = "t-ann") -> Client:
        url = str(self.client.make_url("")).rstrip("/")
        return Client(Credentials(url, FixedIdentity(Proof(token=token))))


@pytest.fixture
async def stage(store: HistoryStore, blobs: Blobs) -> AsyncIterator[Stage]:
    reviews = Reviews()
    reviews.may("ann", "get", resource="runs/logs")

    async def rows() -> LogRows:
        return LogRows(store)

    await store.record(Record(a_run(1, identity=IDENTITY, namespace_uid="uid-perf", name="job-1")))
    async with served(store, blobs, reviews, ArtifactLimits()) as client:
        yield Stage(client, store, blobs, LogCollector(rows, blobs, 10**7), Kubelet())


async def test_the_client_reads_what_is_stored(stage: Stage) -> None:
    many = [f"line {one}" for one in range(50_000)]
    for one, lines in ((CLEAN, ["c"]), (BENCH, ["a", "ValueError: <b>"]), (FETCH, many), (RESOLVER, ["r"])):
        await stage.end(one, *lines)
    async with stage.api() as api:
        history = AsyncHistory(api, "perf")
        found = [(line.source, line.text) async for line in history.logs("job-1")]
        assert found[:50_000] == [("prepare", line) for line in many]
        assert found[50_000:] == [("bench/run", "a"), ("bench/run", "ValueError: <b>"), ("bench/clean", "c")]
        tail = [line.text async for line in history.logs("job-1", tail=1)]
        assert tail == ["line 49999", "ValueError: <b>", "c"]
        assert [line.text async for line in history.logs("job-1", resolver=True)] == ["r"]
        (log,) = await history.stored_logs("job-1", task="bench", container="run")
        assert (log.failing_line, log.failing_text, log.exit_code) == (2, "ValueError: <b>", 2)
        with pytest.raises(NoLogError):
            _ = [line async for line in history.logs("job-1", task="none")]
        await stage.end(LATER, "again")
        assert [line.text async for line in history.logs("job-1")] == ["again"]
    assert sum([one["size"] async for page in stage.blobs._store.list() for one in page]) < 50_000 * 8
    async with stage.api("t-root") as api:
        with pytest.raises(NotAllowedError):
            await AsyncHistory(api, "perf").stored_logs("job-1")


async def test_a_browser_never_shows_a_log(stage: Stage) -> None:
    await stage.end(FETCH, "<b>one</b> \x00")
    where = "/apis/history.fournos.dev/v1/namespaces/perf/runs/job-1/logs/p1/"
    headers = {"Authorization": "Bearer t-ann"}
    async with stage.client.get(where + "step-fetch", headers=headers) as response:
        assert await response.text() == "<b>one</b> \x00\n"
        assert response.content_type == "text/plain"
        assert response.headers["Content-Disposition"].startswith("attachment")
    async with stage.client.get(where + "none", headers=headers) as response:
        assert response.status == 404


async def test_logs_go_with_their_run(stage: Stage) -> None:
    await stage.end(FETCH, "one")
    assert len(await keys_of(stage.blobs)) == 1
    run = await stage.store.get(IDENTITY)
    assert run is not None
    await stage.store.record(Record(ended(run)))
    assert await expire(stage.store, stage.blobs, RetentionLimits(age=timedelta(days=1)), at(10**7)) == 1
    assert not await keys_of(stage.blobs)
    assert await LogRows(stage.store).logs(IDENTITY) == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("place", ["s3"], indirect=True)
async def test_logs_wait_for_a_bucket_that_is_gone(stage: Stage, s3_server: S3Server) -> None:
    s3_server.kill()
    try:
        stage.print(FETCH, "one")
        await until(lambda: stage.kubelet.requests, "the log is not read")
    finally:
        s3_server.start()
    await until(lambda: FETCH.id in stage.collector.stored(IDENTITY.uid), "the log is not stored")
    assert [log.id for log in await LogRows(stage.store).logs(IDENTITY)] == [FETCH.id]
