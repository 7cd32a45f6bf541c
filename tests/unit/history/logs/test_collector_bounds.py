"""The bounds of the collector: bytes of a log and of a run, bytes of an hour, lines in memory, streams."""

from __future__ import annotations

import asyncio

import pytest

from fournos.history.logs.limits import HOUR, TAIL, LogLimits
from tests.unit.history.logs.kubelet import RUN, container, until
from tests.unit.history.logs.stage import Stage

pytestmark = pytest.mark.looptime


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
