"""The collector on a kubelet in memory: every line once, whatever ends in between, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fournos.history.logs.collector import LogCollector
from fournos.history.logs.limits import HOUR, TAIL, LogLimits
from fournos.history.logs.models import Container, StoredLine
from fournos.history.logs.pages import LogReader, Selection
from fournos.history.logs.writer import CHUNK
from fournos.kube.errors import ForbiddenError, InvalidError, KubeError, ServerError
from fournos.kube.resource import Key
from fournos.kube.store import Store
from tests.unit.history.logs.kubelet import (
    RUN,
    Kubelet,
    LoopClock,
    MemoryBlobs,
    MemoryRows,
    container,
    ended,
    until,
)

pytestmark = pytest.mark.looptime
KEY = Key("bench", "job")


class Stage:
    """Everything that outlives a process, and the collector of the present one."""

    def __init__(self) -> None:
        self.kubelet, self.rows, self.blobs = Kubelet(), MemoryRows(), MemoryBlobs()
        self.finished: list[Key] = []
        self.limits = LogLimits()
        self.streams = 10
        self.collector: LogCollector

    @asynccontextmanager
    async def process(self) -> AsyncIterator[LogCollector]:
        """A process; at its end it is killed: nothing is stored any more."""

        async def rows() -> MemoryRows:
            return self.rows

        self.collector = LogCollector(
            rows,
            self.blobs,
            self.limits,
            LoopClock(),
            streams=self.streams,
            finished=self.finished.append,
        )
        task = asyncio.create_task(self.collector.run())
        try:
            yield self.collector
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert self.kubelet.open == 0, "a stream is left over"

    def follow(self, *containers: Container) -> None:
        self.collector.follow(KEY, RUN, containers, self.kubelet)

    def end(self, one: Container, code: int = 0) -> Container:
        """The container ends; its log is over, and the watch shows it."""
        self.kubelet.end(one)
        over = ended(one, code)
        self.follow(over)
        return over

    @property
    def done(self) -> bool:
        return all(one.done for one in self.collector.known(RUN.uid).values())

    async def lines(self, selection: Selection | None = None) -> list[str]:
        return [line.text for line in await self.stored(selection)]

    async def stored(self, selection: Selection | None = None) -> list[StoredLine]:
        logs = (selection or Selection()).of(await self.rows.logs(RUN))
        reader = LogReader(self.rows, self.blobs, RUN, logs, over=False)
        return [line async for line in reader.lines(1, reader.total + 1)]


@pytest.fixture
def here() -> Stage:
    return Stage()


async def test_a_log_is_stored_from_its_first_to_its_last_line_by_one_request(here: Stage) -> None:
    one = container()
    async with here.process():
        here.kubelet.print(one, "a")
        here.follow(one)
        await asyncio.sleep(30)
        here.kubelet.print(one, "b", "", "c")
        here.end(one)
        await until(lambda: here.done)
    assert await here.lines() == ["a", "b", "", "c"]
    (log,) = await here.rows.logs(RUN)
    assert log.complete and log.lines == 4 and log.failing_line is None
    assert len(here.kubelet.requests) == 1
    assert here.finished == [KEY]
    assert set(here.rows.claimed) == set(here.blobs.data) and len(here.blobs.data) == 1
    assert here.rows.claimed == {key: len(data) for key, data in here.blobs.data.items()}


async def test_a_log_without_lines_is_complete_without_a_blob(here: Stage) -> None:
    one = container()
    async with here.process():
        here.follow(one)
        here.end(one, 1)
        await until(lambda: here.done)
    (log,) = await here.rows.logs(RUN)
    assert log.complete and log.lines == 0 and log.failing_line is None and not here.blobs.data


async def test_lines_are_stored_before_the_end_and_at_once_for_a_reader(here: Stage) -> None:
    one = container()
    async with here.process() as collector:
        here.follow(one)
        here.kubelet.print(one, "a")
        await until(lambda: here.blobs.data, 15)
        here.kubelet.print(one, "b")
        await asyncio.sleep(0.1)
        await collector.flush(RUN.uid)
        assert await here.lines() == ["a", "b"]
        assert len(here.blobs.data) == 1, "short pieces share a chunk"


@pytest.mark.parametrize("stored", [False, True])
async def test_a_process_that_is_killed_repeats_and_loses_no_line(here: Stage, stored: bool) -> None:
    one = container()
    async with here.process() as collector:
        here.follow(one)
        here.kubelet.print(one, "a", "b")
        await until(lambda: here.blobs.data)
        here.kubelet.print(one, "c", "d")
        await asyncio.sleep(0.1)
        if stored:
            await collector.flush(RUN.uid)
    here.kubelet.print(one, "e")
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, "f")
        here.end(one)
        await until(lambda: here.done)
    assert await here.lines() == ["a", "b", "c", "d", "e", "f"]


async def test_a_complete_log_is_not_asked_for_again(here: Stage) -> None:
    one = container()
    async with here.process():
        here.kubelet.print(one, "a")
        over = here.end(one)
        await until(lambda: here.done)
    async with here.process():
        here.follow(over)
        await until(lambda: here.done)
    assert len(here.kubelet.requests) == 1


async def test_a_chunk_that_was_written_and_not_counted_is_written_again(here: Stage) -> None:
    one = container()
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, "a")
        await until(lambda: here.blobs.data)
    (key, data), before = next(iter(here.blobs.data.items())), dict(here.rows.stored)
    parts = {name: list(chunks) for name, chunks in here.rows.parts.items()}
    async with here.process() as collector:
        here.follow(one)
        here.kubelet.print(one, "b")
        await asyncio.sleep(0.1)
        await collector.flush(RUN.uid)
    assert here.blobs.data[key] != data
    here.rows.stored, here.rows.parts = before, parts  # killed before the commit
    assert await here.lines() == ["a"], "only what the rows count is valid"
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, "c")
        here.end(one)
        await until(lambda: here.done)
    assert await here.lines() == ["a", "b", "c"]


@pytest.mark.parametrize("cuts", [[1], [0, 2, 1], [3, 1, 1, 1]])
@pytest.mark.parametrize("piece", [3, 10**6])
async def test_a_lost_connection_is_resumed(here: Stage, cuts: list[int], piece: int) -> None:
    one = container()
    here.kubelet.cut_after, here.kubelet.piece = cuts, piece
    async with here.process():
        here.follow(one)
        for number in range(6):
            here.kubelet.print(one, f"{number}a", f"{number}b")
            await asyncio.sleep(0.4)
        here.end(one)
        await until(lambda: here.done)
    assert await here.lines() == [f"{number}{letter}" for number in range(6) for letter in "ab"]


async def test_a_server_that_closes_a_log_that_goes_on(here: Stage) -> None:
    one = container()
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, "a")
        await asyncio.sleep(1)
        here.kubelet.end(one)  # such as a restart of the kubelet
        await asyncio.sleep(1)
        here.kubelet.logs[one.pod, one.name].over = False
        await asyncio.sleep(2.5)
        here.kubelet.print(one, "b")
        here.end(one)
        await until(lambda: here.done)
    assert await here.lines() == ["a", "b"]


async def test_a_pod_that_is_deleted_ends_its_log(here: Stage) -> None:
    one = container()
    async with here.process() as collector:
        here.follow(one)
        here.kubelet.print(one, "a")
        await asyncio.sleep(1)
        here.kubelet.end(one, gone=True)
        await until(lambda: here.done)
        assert await here.lines() == ["a"]
        collector.forget(RUN.uid)
        assert collector.known(RUN.uid) == {} and collector.waiting_bytes == 0


async def test_another_pod_of_the_same_name_is_not_read(here: Stage) -> None:
    one = container()
    pods = Store()
    async with here.process() as collector:
        collector.watch(pods)
        pod = {"metadata": {"namespace": "bench", "name": "pod", "uid": one.pod_uid, "resourceVersion": "1"}}
        pods.observe("ADDED", pod)
        here.follow(one)
        here.kubelet.print(one, "a")
        await asyncio.sleep(1)
        pods.observe("MODIFIED", {"metadata": {**pod["metadata"], "uid": "other", "resourceVersion": "2"}})
        here.kubelet.end(one, gone=True)
        here.kubelet.print(one, "of another run")
        await until(lambda: here.done)
    assert await here.lines() == ["a"]


@pytest.mark.parametrize(
    ("error", "requests"),
    [(ForbiddenError("no"), 1), (InvalidError("waiting to start"), 2), (ServerError("500"), 2)],
)
async def test_errors_of_the_api_server(here: Stage, error: KubeError, requests: int) -> None:
    one = container()
    here.kubelet.errors = [error]
    async with here.process():
        here.kubelet.print(one, "a")
        here.follow(one)
        await asyncio.sleep(100)
        here.end(one)
        await until(lambda: here.done)
    assert len(here.kubelet.requests) == requests
    assert await here.lines() == (["a"] if requests > 1 else [])


async def test_a_log_that_can_never_be_read_does_not_hold_up_the_job(here: Stage) -> None:
    one = container()
    here.kubelet.errors = [InvalidError("previous terminated container not found")] * 100
    async with here.process():
        here.follow(ended(one, 1))
        await until(lambda: here.done, 300)
    assert len(here.kubelet.errors) > 90


@pytest.mark.parametrize("fault", ["down", "full"])
async def test_a_store_that_does_not_answer_loses_nothing(here: Stage, fault: str) -> None:
    one = container()
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, "a")
        await until(lambda: here.blobs.data)
        if fault == "down":
            here.rows.down = True
        else:
            here.blobs.full = True
        here.kubelet.print(one, "b")
        here.end(one)
        await asyncio.sleep(600)
        assert not here.done
        here.rows.down = here.blobs.full = False
        await until(lambda: here.done, 120)
    assert await here.lines() == ["a", "b"]


async def test_a_write_that_seemed_to_fail_is_not_doubled(here: Stage) -> None:
    one = container()
    async with here.process():
        here.follow(one)
        for number in range(8):
            here.rows.fail_after = [number % 2 == 0]
            here.kubelet.print(one, f"{number} {'x' * (CHUNK // 3)}")
            await asyncio.sleep(20)
        here.end(one)
        await until(lambda: here.done)
    assert [text.split()[0] for text in await here.lines()] == [str(number) for number in range(8)]


async def test_a_run_that_is_deleted_from_the_history_leaves_nothing(here: Stage) -> None:
    one = container()
    async with here.process() as collector:
        here.follow(one)
        here.kubelet.print(one, "a")
        await asyncio.sleep(1)
        here.rows.runs.clear()
        here.kubelet.print(one, "b")
        here.end(one)
        await until(lambda: here.done)
        assert collector.waiting_bytes == 0
    assert not here.blobs.data and not here.rows.claimed


async def test_the_failing_line_is_found_also_by_another_process(here: Stage) -> None:
    one = container()
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, "start", "fatal: no such model")
        await until(lambda: here.blobs.data)
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, "error: cleanup", "token=abcdefgh")
        here.end(one, 3)
        await until(lambda: here.done)
    (log,) = await here.rows.logs(RUN)
    assert (log.failing_line, log.failing_text) == (1, "fatal: no such model")
    assert (await here.lines())[-1] == "token=<hidden>"


# --- bounds ---------------------------------------------------------------------------------------------


async def test_a_log_is_cut_at_the_limit_and_keeps_its_end(here: Stage) -> None:
    one = container()
    here.limits = LogLimits(bytes=10_000)
    async with here.process():
        here.follow(one)
        for number in range(500):
            here.kubelet.print(one, f"{number} {'x' * 70}")
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
        assert here.kubelet.open == 0, "a log that is cut is not read on"
        here.kubelet.print(one, "ValueError: the last words")
        here.end(one, 1)
        await until(lambda: here.done)
    lines = await here.lines()
    (mark,) = [number for number, text in enumerate(lines) if text.startswith("[fournos: ")]
    assert lines[0].startswith("0 ") and 80 < mark < 100
    assert "more than 0.01 MB" in lines[mark]
    assert lines[-1] == "ValueError: the last words" and len(lines) == mark + 1 + TAIL
    (log,) = await here.rows.logs(RUN)
    assert log.cut and log.failing_text == "ValueError: the last words"


async def test_the_containers_of_a_run_share_its_limit(here: Stage) -> None:
    one, two = container("step-a"), container("step-b")
    here.limits = LogLimits(bytes=5_000)
    async with here.process():
        here.follow(one, two)
        for each in (one, two):
            here.kubelet.print(each, *["x" * 70] * 40)
        await asyncio.sleep(5)
        here.end(one)
        here.end(two)
        await until(lambda: here.done)
    assert sum(log.cut for log in await here.rows.logs(RUN)) == 1


async def test_a_flood_is_cut_for_an_hour_and_goes_on_after_it(here: Stage) -> None:
    one = container()
    here.limits = LogLimits(bytes=10**9, bytes_per_hour=10_000)
    async with here.process():
        here.follow(one)
        here.kubelet.print(one, *["flood"] * 1000)
        await asyncio.sleep(1800)
        here.kubelet.print(one, "left out")
        await asyncio.sleep(HOUR)
        here.kubelet.print(one, "afterwards")
        await asyncio.sleep(60)
        here.end(one)
        await until(lambda: here.done)
    lines = await here.lines()
    assert lines[-1] == "afterwards" and "within an hour" in lines[-2] and "left out" not in lines


async def test_lines_in_memory_are_bounded_while_the_store_is_away(
    here: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fournos.history.logs.collector.MEMORY", 500_000)
    ones = [container(pod=f"pod-{number}") for number in range(20)]
    here.streams = 20
    text = "x" * 60_000
    async with here.process() as collector:
        for one in ones:
            here.kubelet.print(one, "first")
        here.follow(*ones)
        await asyncio.sleep(0.1)
        here.rows.down = True
        for _ in range(10):
            for one in ones:
                here.kubelet.print(one, text)
        await asyncio.sleep(300)
        assert 500_000 < collector.waiting_bytes < 500_000 + 20 * 70_000
        here.rows.down = False
        for one in ones:
            here.end(one)
        await until(lambda: here.done, 600)
        assert collector.waiting_bytes == 0
    assert sum(log.lines for log in await here.rows.logs(RUN)) == 220


async def test_more_containers_than_room_are_all_stored(here: Stage) -> None:
    here.streams = 2
    ones = [container(pod=f"pod-{number}") for number in range(6)]
    async with here.process() as collector:
        for one in ones:
            here.kubelet.print(one, one.pod.name)
        here.follow(*ones)
        await asyncio.sleep(30)
        assert here.kubelet.open == collector.streams == 2
        for one in ones[2:]:
            here.end(one)
        await until(lambda: sum(log.complete for log in here.rows.stored.values()) == 4)
        for one in ones[:2]:
            here.end(one)
        await until(lambda: here.done)
    assert sorted(await here.lines()) == [one.pod.name for one in ones]
    assert len(here.kubelet.requests) == 6


async def test_what_a_pod_shows_that_is_not_known(here: Stage) -> None:
    one = container()

    def pod(state: dict[str, object]) -> dict[str, object]:
        return {
            "metadata": {"uid": one.pod_uid, "namespace": "bench", "name": "pod"},
            "status": {"containerStatuses": [{"name": one.name, "state": state}]},
        }

    async with here.process() as collector:
        assert not collector.behind(pod({"waiting": {}}))
        assert collector.behind(pod({"running": {}}))
        here.follow(one)
        assert not collector.behind(pod({"running": {}}))
        assert collector.behind(pod({"terminated": {}}))
        here.end(one)
        assert not collector.behind(pod({"terminated": {}}))
