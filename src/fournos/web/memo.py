"""Answers that are kept: for a while, or until a watched object changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, Generic, TypeVar, cast

from fournos.web.live.pieces import Piece

T = TypeVar("T")
Stamp = TypeVar("Stamp")
Rendered = Mapping[str, Piece]

ANSWERS: Final = 256
PAGES: Final = 64
"""Entries that are kept; the least recently used one goes first."""


class _Kept(Generic[Stamp]):
    """Answers by key.  Requests for one answer at the same time wait for the same one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[Hashable, tuple[Stamp, asyncio.Task[Any]]] = OrderedDict()

    async def _get(
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


class Memo(_Kept[float]):
    """Answers that cost requests, kept for a while: estimates, usage, the health of the installation."""

    def __init__(self, most: int = ANSWERS) -> None:
        super().__init__(most)

    async def get(self, key: Hashable, seconds: float, make: Callable[[], Awaitable[T]]) -> T:
        """Returns an answer that is at most `seconds` old."""
        now = asyncio.get_running_loop().time()
        return await self._get(key, now, lambda made: now - made <= seconds, make)


class RenderedPages(_Kept[Hashable]):
    """Pages that are rendered once for all persons with the same rights, until a watched object changes."""

    def __init__(self, most: int = PAGES) -> None:
        super().__init__(most)

    async def get(
        self, key: Hashable, revision: Hashable, render: Callable[[], Awaitable[Rendered]]
    ) -> Rendered:
        """Returns the page of this revision."""
        return await self._get(key, revision, lambda rendered: rendered == revision, render)


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
