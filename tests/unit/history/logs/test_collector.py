"""The collector on a kubelet in memory: every line once, whatever ends in between."""

from __future__ import annotations

import asyncio

import pytest

from fournos.engine.kube.errors import ForbiddenError, InvalidError, KubeError, ServerError
from fournos.engine.kube.store import Store
from fournos.history.logs.writer import CHUNK
from tests.unit.history.logs.kubelet import RUN, container, ended, until
from tests.unit.history.logs.stage import KEY, Stage

pytestmark = pytest.mark.looptime


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
    before = dict(here.rows.stored)
    parts = {name: list(chunks) for name, chunks in here.rows.parts.items()}
    async with here.process() as collector:
        here.follow(one)
        here.kubelet.print(one, "b")
        await asyncio.sleep(0.1)
        await collector.flush(RUN.uid)
    assert await here.lines() == ["a", "b"]
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
