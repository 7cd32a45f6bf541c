"""Logs in both databases and both stores of blobs: collected, read at any line, gone with their run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from fournos.client import history_logs
from fournos.client.errors import NoLogError
from fournos.client.history import AsyncHistory
from fournos.client.logs import LogLine
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import SystemClock
from fournos.history.artifacts.rules import ArtifactLimits
from fournos.history.blobs import Blobs
from fournos.history.logs.collector import LogCollector
from fournos.history.logs.limits import LogLimits
from fournos.history.logs.models import Log, Put, StartedContainer
from fournos.history.records import Identity, Record
from fournos.history.store import HistoryStore
from fournos.history.store.logs import LogRows
from fournos.history.store.retention import RetentionLimits, expire
from tests.history import a_run, at, ended
from tests.store.conftest import keys_of
from tests.store.s3_server import S3Server
from tests.store.served import served
from tests.unit.history.api.service import Reviews
from tests.unit.history.logs.kubelet import Kubelet, container, until
from tests.unit.history.logs.kubelet import ended as over
from tests.waiting import LIMIT

RUN = "/apis/history.fournos.dev/v1/namespaces/perf/runs/job-1/logs"
IDENTITY = Identity("here", "perf", "00000000-0000-0000-0000-000000000001")


@dataclass
class Stage:
    client: TestClient[Any, Any]
    store: HistoryStore
    collector: LogCollector
    kubelet: Kubelet
    blobs: Blobs

    def print(self, one: StartedContainer, *texts: str) -> None:
        self.kubelet.print(one, *texts)
        self.collector.follow(Key("perf", "job-1"), IDENTITY, [one], self.kubelet)

    async def end(self, one: StartedContainer, code: int = 0) -> None:
        self.kubelet.end(one)
        self.collector.follow(Key("perf", "job-1"), IDENTITY, [over(one, code)], self.kubelet)
        await until(lambda: self.collector.known(IDENTITY.uid)[one.id].done, pause=0.01)

    async def over(self) -> None:
        """The run ends."""
        run = await self.store.get(IDENTITY)
        assert run is not None
        await self.store.record(Record(ended(run, observed_at=SystemClock().now())))

    async def get(self, query: str = "", token: str = "t-ann") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        async with self.client.get(RUN + query, headers=headers) as response:
            text = response.content_type == "text/plain"
            return response.status, await (response.text() if text else response.json())

    async def texts(self, query: str = "") -> list[str]:
        status, page = await self.get(query)
        assert status == 200, page
        return [line["text"] for line in page["lines"]]

    async def files(self) -> list[str]:
        return await keys_of(self.blobs)


@pytest.fixture
async def stage(store: HistoryStore, blobs: Blobs) -> AsyncIterator[Stage]:
    reviews = Reviews()
    reviews.may("ann", "get", resource="runs/logs")

    async def rows() -> LogRows:
        return LogRows(store)

    collector = LogCollector(rows, blobs, LogLimits(), SystemClock(), streams=10)
    await store.record(Record(a_run(1, identity=IDENTITY, namespace_uid="uid-perf", name="job-1")))
    task = asyncio.create_task(collector.run())
    async with served(store, blobs, reviews, ArtifactLimits(), flush_logs=collector.flush) as client:
        yield Stage(client, store, collector, Kubelet(), blobs)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


FETCH = container("step-fetch", pod="p1", task="prepare")
BENCH = replace(
    container("step-run", pod="p2", task="bench"), started_at=FETCH.started_at + timedelta(seconds=9)
)
CLEAN = replace(BENCH, name="step-clean", position=1)
LATER = replace(container("step-run", pod="p3", task="bench", attempt=2))
RESOLVER = container("resolve", pod="p0", task="resolver", attempt=0)


async def test_live_and_stored_lines_have_one_address(stage: Stage) -> None:
    stage.print(FETCH, "one", "two")
    await until(lambda: stage.collector.waiting_bytes, pause=0.01)
    status, page = await stage.get()
    assert status == 200
    assert [line["text"] for line in page["lines"]] == ["one", "two"]
    assert (page["total"], page["next"], page["complete"], page["failure"]) == (2, 3, False, None)
    stage.kubelet.print(FETCH, "three")
    await stage.end(FETCH)
    assert await stage.texts() == ["one", "two", "three"]
    _, page = await stage.get()
    assert (page["next"], page["complete"]) == (4, False), "another container may start"
    await stage.over()
    _, page = await stage.get()
    assert (page["next"], page["complete"]) == (None, True)
    assert await stage.texts("?from=3") == ["three"]


async def test_lines_are_numbered_through_the_containers(stage: Stage) -> None:
    for one, texts in (
        (CLEAN, ["c0"]),
        (BENCH, ["b0", "b1"]),
        (FETCH, ["f0", "f1", "f2"]),
        (RESOLVER, ["r"]),
    ):
        stage.print(one, *texts)
        await stage.end(one)
    _, page = await stage.get()
    assert [line["text"] for line in page["lines"]] == ["f0", "f1", "f2", "b0", "b1", "c0"]
    assert [line["line"] for line in page["lines"]] == [1, 2, 3, 4, 5, 6]
    parts = [(part["task"], part["container"], part["firstLine"], part["lines"]) for part in page["parts"]]
    assert parts == [
        ("prepare", "step-fetch", 1, 3),
        ("bench", "step-run", 4, 2),
        ("bench", "step-clean", 6, 1),
    ]
    assert await stage.texts("?from=3&limit=2") == ["f2", "b0"]
    assert await stage.texts("?tail=2") == ["b1", "c0"]
    assert await stage.texts("?task=bench") == ["b0", "b1", "c0"]
    assert await stage.texts("?task=bench&container=run") == ["b0", "b1"]
    assert await stage.texts("?resolver=true") == ["r"]
    assert await stage.texts("?from=100") == []
    stage.print(LATER, "again")
    await stage.end(LATER)
    assert await stage.texts() == ["again"]
    assert await stage.texts("?attempt=1&limit=1") == ["f0"]


async def test_the_first_failing_line(stage: Stage) -> None:
    stage.print(FETCH, "fetched with 0 errors")
    await stage.end(FETCH)
    stage.print(
        BENCH, "start", "Traceback (most recent call last):", "  run()", "ValueError: no model", "bye"
    )
    await stage.end(BENCH, 2)
    _, page = await stage.get("?limit=0")
    assert page["lines"] == []
    assert page["failure"] == {
        "line": 5,
        "task": "bench",
        "container": "step-run",
        "exitCode": 2,
        "text": "ValueError: no model",
    }


async def test_the_whole_log_as_text(stage: Stage) -> None:
    stage.print(FETCH, "one", "<b>two</b> \x00")
    await stage.end(FETCH)
    stage.print(BENCH, "a")
    stage.print(CLEAN, "b")
    await stage.end(BENCH)
    await stage.end(CLEAN)
    _, text = await stage.get("?download=true")
    assert text == "[prepare] one\n[prepare] <b>two</b> \x00\n[bench/run] a\n[bench/clean] b\n"
    _, text = await stage.get("?download=true&timestamps=true&from=4")
    assert text.startswith("[bench/clean] 20") and text.endswith("Z b\n")
    assert (await stage.get("?download=true&task=none"))[0] == 404


async def test_many_lines_are_read_by_the_chunks_that_hold_them(stage: Stage) -> None:
    number = 30_000
    stage.print(FETCH, *(f"line {one}" for one in range(1, number + 1)))
    await stage.end(FETCH)
    assert len(await stage.files()) > 3
    for first in (1, 7_000, 15_000, number):
        assert (await stage.texts(f"?from={first}&limit=1")) == [f"line {first}"]
    assert await stage.texts("?from=14000&limit=3000") == [f"line {one}" for one in range(14_000, 17_000)]
    sizes = sum([one.size async for page in stage.blobs.pages() for one in page])
    assert sizes < number * 8, "chunks are compressed"


async def test_rights_and_parameters(stage: Stage) -> None:
    stage.print(FETCH, "one")
    await stage.end(FETCH)
    assert (await stage.get(token="t-root"))[0] == 403
    for wrong in ("?from=0", "?limit=10001", "?tail=x", "?other=1", "?attempt=0"):
        assert (await stage.get(wrong))[0] == 400, wrong


async def test_logs_go_with_their_run(stage: Stage) -> None:
    stage.print(FETCH, "one")
    await stage.end(FETCH)
    assert len(await stage.files()) == 1
    run = await stage.store.get(IDENTITY)
    assert run is not None
    await stage.store.record(Record(ended(run)))
    limits = RetentionLimits(age=timedelta(days=1))
    assert await expire(stage.store, stage.blobs, limits, at(10**7)) == 1
    assert not await stage.files()
    assert await LogRows(stage.store).logs(IDENTITY) == []


async def test_the_client_reads_all_pages(stage: Stage) -> None:
    stage.print(FETCH, *(f"line {one}" for one in range(2500)))
    await stage.end(FETCH)
    stage.print(BENCH, "a", "b")
    await stage.end(BENCH)
    url = str(stage.client.make_url("")).rstrip("/")
    async with Client(Credentials(url, FixedIdentity(Proof(token="t-ann")))) as api:
        history = AsyncHistory(api, "perf")
        lines = [(line.source, line.text) async for line in history.logs("job-1")]
        assert lines == [("prepare", f"line {one}") for one in range(2500)] + [("bench", "a"), ("bench", "b")]
        tail = [line.text async for line in history.logs("job-1", tail=1)]
        assert tail == ["line 2499", "b"]
        assert [line.text async for line in history.logs("job-1", first=2502)] == ["b"]
        assert (await history.log_page("job-1", first=2501, limit=1)).lines[0].text == "a"
        with pytest.raises(NoLogError):
            _ = [line async for line in history.logs("job-1", task="none")]


@pytest.mark.parametrize("place", ["directory"], indirect=True)
async def test_a_log_is_followed_over_many_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_logs, "_SOON", 0.01)
    monkeypatch.setattr(history_logs, "_SELDOM", 0.05)
    read: list[LogLine] = []
    url = str(stage.client.make_url("")).rstrip("/")

    async def follow(history: AsyncHistory) -> None:
        async for line in history.logs("job-1", follow=True):
            read.append(line)

    def came(text: str) -> Callable[[], bool]:
        return lambda: bool(read) and read[-1].text == text

    async with Client(Credentials(url, FixedIdentity(Proof(token="t-ann")))) as api:
        following = asyncio.create_task(follow(AsyncHistory(api, "perf")))
        stage.print(RESOLVER, "resolved")
        await until(came("resolved"), pause=0.01)
        await stage.end(RESOLVER)
        first = [f"f{number}" for number in range(1500)]
        stage.print(FETCH, *first[:1200])
        await until(came("f1199"), pause=0.01)
        stage.print(BENCH, "b0")
        await until(came("b0"), pause=0.01)
        stage.kubelet.print(FETCH, *first[1200:])
        await until(came("f1499"), pause=0.01)
        stage.kubelet.print(BENCH, "b1")
        await stage.end(FETCH)
        await stage.end(BENCH, 1)
        stage.print(LATER, "again")
        await until(came("again"), pause=0.01)
        await stage.end(LATER)
        assert not following.done(), "the run goes on"
        await stage.over()
        await asyncio.wait_for(following, LIMIT)
        of = {name: [line.text for line in read if line.source == name] for name in ("prepare", "bench")}
        assert of == {"prepare": first, "bench": ["b0", "b1", "again"]}
        assert [line.text for line in read if line.source == "resolver"] == ["resolved"]
        assert len(read) == 1504
        rest = [line.text async for line in AsyncHistory(api, "perf").logs("job-1", attempt=1, follow=True)]
        assert len(rest) == 1502, "an attempt that is over ends"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("place", ["s3"], indirect=True)
async def test_logs_wait_for_a_bucket_that_is_gone(stage: Stage, s3_server: S3Server) -> None:
    stage.print(FETCH, "before")
    await until(lambda: stage.collector.waiting_bytes, pause=0.01)
    assert await stage.texts() == ["before"]
    await asyncio.to_thread(s3_server.kill)
    try:
        stage.print(FETCH, "meanwhile")
        await until(lambda: stage.collector.waiting_bytes, pause=0.01)
        assert (await stage.get())[0] == 503
        assert stage.collector.waiting_bytes, "what could not be stored is kept"
    finally:
        await asyncio.to_thread(s3_server.start)
    stage.kubelet.print(FETCH, "after")
    await stage.end(FETCH)
    assert await stage.texts() == ["before", "meanwhile", "after"]


async def test_a_log_continues_only_lines_that_are_stored(store: HistoryStore) -> None:
    """A run that was deleted and recorded anew has none of the lines that a stream stored before."""
    rows, log = LogRows(store), Log(FETCH, lines=5)
    await store.record(Record(a_run(1, identity=IDENTITY)))
    assert await rows.put_log(IDENTITY, log, None, after=2) is Put.BEHIND
    assert await rows.put_log(IDENTITY, replace(log, lines=2), None, after=0) is Put.STORED
    assert await rows.put_log(IDENTITY, log, None, after=2) is Put.STORED
    assert await rows.put_log(IDENTITY, log, None, after=2) is Put.BEHIND
    assert [stored.lines for stored in await rows.logs(IDENTITY)] == [5]
