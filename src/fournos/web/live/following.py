"""What an open page watches with the credentials of its person, besides the objects that the server watches.

Objects that only one page shows, such as the tasks of one job, are not worth a watch of all of them: each
page watches its own by label, while a tab is open and while they change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.kube.store import Store

DELAY: Final = 0.5
"""Seconds in which several changes count as one: each one has the page read its objects again."""
MOST: Final = 100
"""Watches of one replica at most: over TLS each takes half a megabyte.  A page without one is as current as
the objects that the server watches."""
_KEPT: Final = ("namespace", "name", "uid", "resourceVersion")


@dataclass(frozen=True, slots=True)
class Watched:
    """The objects of a kind that a page watches."""

    resource: Resource
    namespace: str
    selector: str


class PageWatches:
    """The watches of one channel.  They report that something changed; the page reads what has."""

    def __init__(self, poke: Callable[[], None], open: set[asyncio.Task[None]]) -> None:
        """`poke` is called after a change; `open` are the watches of all channels."""
        self.changes = 0
        """Grows with the changes."""
        self._poke = poke
        self._open = open
        self._running: dict[Watched, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def want(self, api: Api, watched: Iterable[Watched]) -> None:
        """Watches these objects, and no others any more."""
        if self._closed:
            return
        named = set(watched)
        for ended in self._running.keys() - named:
            self._running.pop(ended).cancel()
        for watch in named - self._running.keys():
            if len(self._open) >= MOST:
                return
            reflector = Reflector(
                api,
                watch.resource,
                Store(project=_slim),
                namespace=watch.namespace,
                selector=watch.selector,
                on_change=lambda *_: self._changed(),
            )
            task = self._running[watch] = asyncio.create_task(reflector.run())
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    def close(self) -> None:
        self._closed = True
        for task in self._running.values():
            task.cancel()
        self._running.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._report)

    def _report(self) -> None:
        self._timer = None
        self.changes += 1
        self._poke()


def _slim(obj: Obj) -> Obj:
    meta = obj["metadata"]
    return {"metadata": {name: meta[name] for name in _KEPT if name in meta}}
