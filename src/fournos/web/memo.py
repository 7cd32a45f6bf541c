"""Answers that cost requests, kept for a while: estimates, usage, the health of the installation."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

KEPT: Final = 256
"""Answers that are kept; the least recently used one goes first."""


class Memo:
    """Answers by key.  Requests for one answer at the same time wait for the same one."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def get(self, key: Hashable, seconds: float, make: Callable[[], Awaitable[T]]) -> T:
        """Returns an answer that is at most `seconds` old.  An error is raised and not kept.

        A caller that stops waiting does not stop the request: the next one gets its answer.
        """
        now = asyncio.get_running_loop().time()
        found = self._kept.get(key)
        if found is None or now - found[0] > seconds or _failed(found[1]):
            found = now, asyncio.ensure_future(make())
            # Its waiters may all be gone when it fails.
            found[1].add_done_callback(_failed)
            self._kept[key] = found
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return cast(T, await asyncio.shield(found[1]))


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
