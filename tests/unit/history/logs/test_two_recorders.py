"""Two recorders that follow one container, as while one takes over: each line is stored once."""

from __future__ import annotations

import asyncio

import pytest

from fournos.history.logs.limits import Memory
from fournos.history.logs.models import Log
from fournos.history.logs.writer import LogWriter
from tests.unit.history.logs.kubelet import RUN, container, ended, until
from tests.unit.history.logs.stage import Stage

pytestmark = pytest.mark.looptime


async def test_two_recorders_that_follow_one_container_store_each_line_once(here: Stage) -> None:
    one = container()
    async with here.process() as old:
        here.follow(one)
        here.kubelet.print(one, "a", "b")
        await asyncio.sleep(0.1)
        await old.flush(RUN.uid)
        async with here.process(others=1) as new:
            here.follow(one)
            for number, turns in enumerate(((old,), (new, new), (old, new), (new,), (new,), (old,))):
                here.kubelet.print(one, f"{number}c", f"{number}d")
                await asyncio.sleep(0.1)
                for each in turns:
                    here.kubelet.print(one, f"{number} while it is stored")
                    await each.flush(RUN.uid)
        here.kubelet.print(one, "e")
        here.collector = old
        here.end(one)
        await until(lambda: here.done)
    assert await here.lines() == [
        line.partition(b" ")[2].decode() for line in here.kubelet.logs[one.pod, one.name].lines
    ]
    assert sorted(here.rows.claimed) == sorted(here.blobs.data)


async def test_a_recorder_that_is_far_behind_leaves_out_what_the_other_has_stored(here: Stage) -> None:
    one = container()
    here.kubelet.print(one, "a", "b", "c", "d")
    lines = here.kubelet.logs[one.pod, one.name].lines
    slow, fast = (LogWriter(here.rows, here.blobs, RUN, Log(one), None, Memory(10**6)) for _ in range(2))
    fast.add(lines[:3], 0.0)
    await fast.flush()
    slow.add(lines[:1], 0.0)
    await slow.flush()
    assert slow.log.lines == 3, "what is stored, not what it has received"
    slow.add(lines[1:2], 0.0)
    slow.add(lines[2:], 0.0)
    await slow.complete(ended(one))
    assert await here.lines() == ["a", "b", "c", "d"]
    await fast.complete(ended(one))
    assert await here.lines() == ["a", "b", "c", "d"]


async def test_a_log_that_is_stored_anew_takes_all_lines_that_follow(here: Stage) -> None:
    """A restored database, or a run that was deleted and recorded again, has fewer lines than before."""
    one = container()
    here.kubelet.print(one, "a", "b", "c", "d", "e")
    lines = here.kubelet.logs[one.pod, one.name].lines
    memory = Memory(10**6)
    writer = LogWriter(here.rows, here.blobs, RUN, Log(one), None, memory)
    writer.add(lines[:2], 0.0)
    await writer.flush()
    here.rows.stored.clear()
    here.rows.parts.clear()
    writer.add(lines[2:], 0.0)
    await writer.flush()
    assert await here.lines() == ["c", "d", "e"]
    assert memory.used == 0
