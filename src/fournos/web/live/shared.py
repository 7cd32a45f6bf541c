"""What is rendered once for all persons with the same rights, until a watched object changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final

from fournos.web.live.pieces import Piece

Rendered = Mapping[str, Piece]

KEPT: Final = 64
"""Pages that are kept; the least recently used one goes first."""


class Shared:
    """Rendered pages by key.  Requests for one page at the same time wait for one rendering."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[Hashable, asyncio.Task[Rendered]]] = OrderedDict()

    async def get(
        self, key: Hashable, revision: Hashable, render: Callable[[], Awaitable[Rendered]]
    ) -> Rendered:
        """Returns the page of this revision.  An error of `render` is raised and not kept."""
        found = self._kept.get(key)
        if found is None or found[0] != revision or _failed(found[1]):
            found = revision, asyncio.ensure_future(render())
            # Its waiters may all be gone when it fails.
            found[1].add_done_callback(_failed)
            self._kept[key] = found
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return await asyncio.shield(found[1])


def _failed(task: asyncio.Task[Rendered]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
