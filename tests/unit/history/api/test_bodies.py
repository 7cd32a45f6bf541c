"""The memory and the time of bodies that are being received."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from fournos.history.api.bodies import RATE, SLOW, Bodies
from fournos.history.api.errors import RequestTimeoutError, TooManyRequestsError

pytestmark = pytest.mark.looptime


def request(size: int | None, *, there: bool = True) -> Any:
    loop = asyncio.get_running_loop()
    content = StreamReader(BaseProtocol(loop), 2**16, loop=loop)
    return SimpleNamespace(content_length=size, body_exists=there, content=content)


async def test_all_bodies_together_and_those_of_one_caller_have_bounded_memory() -> None:
    bodies = Bodies(100, of_caller=50)
    async with AsyncExitStack() as open_ones:

        async def receive(caller: str, size: int | None, *, held: int = 30, there: bool = True) -> None:
            sent = request(size, there=there)
            await open_ones.enter_async_context(bodies.receiving(sent, caller, held=held))

        await receive("ann", 10**9)
        await receive("ann", 20)
        with pytest.raises(TooManyRequestsError) as refused:
            await receive("ann", 1)
        assert refused.value.retry_after > 0
        await receive("bob", None)
        await receive("cid", 20)
        with pytest.raises(TooManyRequestsError):
            await receive("dan", 1)
        await receive("dan", None, there=False)
    async with bodies.receiving(request(50), "ann", held=50):
        pass
    assert not bodies._held


async def test_the_bodies_of_one_run_leave_room_for_other_runs_of_the_same_account() -> None:
    """All tasks of a namespace share a ServiceAccount: four large files of one run are its whole part."""
    bodies, account = Bodies(), "system:serviceaccount:perf:pipeline"
    async with AsyncExitStack() as open_ones:

        async def receive(run: str) -> None:
            body = bodies.receiving(request(10**9), account, held=8 * 2**20, run=run)
            await open_ones.enter_async_context(body)

        for _ in range(4):
            await receive("perf/one")
        with pytest.raises(TooManyRequestsError, match="for this run"):
            await receive("perf/one")
        for _ in range(4):
            await receive("perf/two")
        with pytest.raises(TooManyRequestsError, match="with this account"):
            await receive("perf/three")
        async with bodies.receiving(request(10**9), "another", held=8 * 2**20):
            pass
    assert not bodies._held


async def test_a_body_that_does_not_come_in_time_ends() -> None:
    bodies = Bodies()
    now = asyncio.get_running_loop().time
    began = now()
    with pytest.raises(RequestTimeoutError):
        async with bodies.receiving(request(10 * RATE), "ann", held=100):
            await asyncio.Event().wait()
    assert SLOW + 10 <= now() - began < SLOW + 11
    assert not bodies._held


async def test_the_time_ends_with_the_last_byte() -> None:
    sent = request(1)
    async with Bodies().receiving(sent, "ann", held=100):
        sent.content.feed_eof()
        await asyncio.sleep(10 * SLOW)
