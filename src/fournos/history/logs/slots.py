"""How many logs are read at once: so many of running containers, and some more of ended ones.

A container for which there is no room while it runs is read when it has ended, as long as its pod exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

_ENDED: Final = 16


class Slots:
    """The room for streams."""

    def __init__(self, running: int, ended: int = _ENDED) -> None:
        self._running = asyncio.Semaphore(running)
        self._ended = asyncio.Semaphore(ended)
        self.used = 0

    @asynccontextmanager
    async def taken(self, ended: asyncio.Event) -> AsyncIterator[None]:
        """Waits for room; `ended` is set when the container has ended."""
        room = await self._room(ended)
        self.used += 1
        try:
            yield
        finally:
            self.used -= 1
            room.release()

    async def _room(self, ended: asyncio.Event) -> asyncio.Semaphore:
        if not ended.is_set() and await self._first(ended):
            return self._running
        await self._ended.acquire()
        return self._ended

    async def _first(self, ended: asyncio.Event) -> bool:
        """Waits for room among the running ones; False if the container ended before there was any."""
        if not self._running.locked():
            return await self._running.acquire()
        room = asyncio.ensure_future(self._running.acquire())
        end = asyncio.ensure_future(ended.wait())
        try:
            await asyncio.wait((room, end), return_when=asyncio.FIRST_COMPLETED)
            return room.done()
        finally:
            end.cancel()
            if not room.done():
                room.cancel()
            await asyncio.gather(room, end, return_exceptions=True)
