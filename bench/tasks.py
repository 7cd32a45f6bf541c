"""Work beside the measuring: until something holds, in the background, so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any


async def until(holds: Callable[[], bool], *, every: float = 0.05) -> None:
    """Looks `every` so many seconds, and returns when it holds."""
    while not holds():  # noqa: ASYNC110 - another process or a watch brings it about
        await asyncio.sleep(every)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Does the work as long as the context is open, and then cancels it.  Its errors are dropped."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def limited(number: int, calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Makes the calls, `number` of them at once."""
    room = asyncio.Semaphore(number)

    async def call_in_room(call: Callable[[], Awaitable[None]]) -> None:
        async with room:
            await call()

    await asyncio.gather(*map(call_in_room, calls))
