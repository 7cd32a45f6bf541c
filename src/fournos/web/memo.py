"""Answers that are kept: for a while, or until a watched object changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")
Stamp = TypeVar("Stamp")

ANSWERS: Final = 256
"""Entries that are kept; the least recently used one goes first."""


class Kept(Generic[Stamp]):
    """Answers by key.  Requests for one answer at the same time wait for the same one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[Hashable, tuple[Stamp, asyncio.Task[Any]]] = OrderedDict()

    async def kept(
        self, key: Hashable, stamp: Stamp, valid: Callable[[Stamp], bool], make: Callable[[], Awaitable[T]]
    ) -> T:
        """Returns the answer whose stamp is valid, else a new one.  An error is raised and not kept.

        A caller that stops waiting does not stop the request: the next one gets its answer.
        """
        entry = self._entries.get(key)
        if entry is None or not valid(entry[0]) or _failed(entry[1]):
            entry = stamp, asyncio.ensure_future(make())
            # Its waiters may all be gone when it fails.
            entry[1].add_done_callback(_failed)
            self._entries[key] = entry
        self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return cast(T, await asyncio.shield(entry[1]))

    def clear(self) -> None:
        """Forgets all answers."""
        self._entries.clear()


class Memo(Kept[float]):
    """Answers that cost requests, kept for a while: estimates, usage, the health of the installation."""

    def __init__(self, most: int = ANSWERS) -> None:
        super().__init__(most)

    async def get(self, key: Hashable, seconds: float, make: Callable[[], Awaitable[T]]) -> T:
        """Returns an answer that is at most `seconds` old."""
        now = asyncio.get_running_loop().time()
        return await self.kept(key, now, lambda made: now - made <= seconds, make)


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
