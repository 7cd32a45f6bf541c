"""Channels: one for each page and class of permissions.  A change is rendered once and sent to all its tabs.

A channel works only while somebody listens and something changes: an idle tab costs one comment each
`HEARTBEAT` seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from fournos.web.live.pieces import ROOT, Piece, changed

log = logging.getLogger(__name__)

REST: Final = 0.2
"""Seconds between two renderings of a channel at least: a burst of changes is rendered once."""
SHARE: Final = 0.2
"""The part of its time that a channel may spend on rendering: the longer it takes, the longer it rests."""
HEARTBEAT: Final = 15.0
"""Seconds after which a silent stream sends a comment, because proxies close idle connections."""
PENDING: Final = 8
"""Messages that wait for a slow reader; more are replaced by the whole page."""

Render = Callable[[], Awaitable[Mapping[str, Piece]]]


class FullError(Exception):
    """No further stream is open to this person or on this replica: the tab asks again every few seconds."""


def digest(pieces: Mapping[str, Piece]) -> str:
    """Returns the identity of a rendered page."""
    return hashlib.sha256(pieces[ROOT].html.encode()).hexdigest()[:16]


class Listener:
    """An open tab."""

    def __init__(self) -> None:
        self._pending: deque[bytes] = deque()
        self._there = asyncio.Event()
        self.behind = False
        """True if messages were dropped: the next one must be the whole page."""
        self._closed = False

    def put(self, message: bytes) -> None:
        if len(self._pending) >= PENDING:
            self._pending.clear()
            self.behind = True
            return
        self._pending.append(message)
        self._there.set()

    def close(self) -> None:
        self._closed = True
        self._there.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yields what to send; b"" after each `HEARTBEAT` of silence.  Ends after `close`."""
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._there.wait()
            except TimeoutError:
                yield b""
                continue
            while self._pending:
                yield self._pending.popleft()
            if self._closed:
                return
            self._there.clear()


class _Channel:
    """The tabs that show one page to persons with the same rights."""

    def __init__(self, render: Render, revision: Callable[[], Hashable]) -> None:
        self.render = render
        self.revision = revision
        self.shown: Mapping[str, Piece] = {}
        self.seen: Hashable = None
        self.listeners: set[Listener] = set()
        self.users = 0
        """The tabs that listen or are about to."""
        self.poke = asyncio.Event()
        self.ready = asyncio.Event()
        """Set after the first rendering, successful or not."""

    async def run(self) -> None:
        while True:
            self.poke.clear()
            began = time.process_time()
            if (revision := self.revision()) != self.seen or not self.shown:
                await self._update(revision)
            self.ready.set()
            spent = time.process_time() - began
            await asyncio.sleep(max(REST, spent / SHARE - spent))
            await self.poke.wait()

    async def _update(self, revision: Hashable) -> None:
        try:
            found = await self.render()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.info("live: a page was not rendered: %s", type(error).__name__)
            return
        self.seen = revision
        before, self.shown = self.shown, found
        whole = b""
        message = _message(found, dict(changed(before, found)) if before else {})
        for one in self.listeners:
            if one.behind:
                whole = whole or _message(found, {ROOT: found[ROOT].html})
                one.behind = False
                one.put(whole)
            elif message:
                one.put(message)


class Channels:
    """All channels of one server."""

    def __init__(self, *, most: int = 1000, most_each: int = 20) -> None:
        """`most`: streams of all persons; `most_each`: of one person."""
        self._most = most
        self._most_each = most_each
        self._open: dict[Hashable, tuple[_Channel, asyncio.Task[None]]] = {}
        self._counts: dict[str, int] = {}

    def poke(self) -> None:
        """Some watched object changed."""
        for channel, _ in self._open.values():
            channel.poke.set()

    @property
    def streams(self) -> int:
        return sum(self._counts.values())

    @asynccontextmanager
    async def listen(
        self, key: Hashable, person: str, at: str, render: Render, revision: Callable[[], Hashable]
    ) -> AsyncIterator[Listener]:
        """Joins the channel of this key.  `at` is the `digest` of what the tab shows.

        Raises FullError.
        """
        if self.streams >= self._most or self._counts.get(person, 0) >= self._most_each:
            raise FullError
        self._counts[person] = self._counts.get(person, 0) + 1
        listener = Listener()
        channel = self._join(key, render, revision)
        channel.users += 1
        try:
            await channel.ready.wait()
            if channel.shown and digest(channel.shown) != at:
                listener.put(_message(channel.shown, {ROOT: channel.shown[ROOT].html}))
            channel.listeners.add(listener)
            yield listener
        finally:
            channel.listeners.discard(listener)
            channel.users -= 1
            self._counts[person] -= 1
            if not self._counts[person]:
                del self._counts[person]
            self._leave(key)

    def _join(self, key: Hashable, render: Render, revision: Callable[[], Hashable]) -> _Channel:
        if key not in self._open:
            channel = _Channel(render, revision)
            self._open[key] = channel, asyncio.create_task(channel.run())
        return self._open[key][0]

    def _leave(self, key: Hashable) -> None:
        channel, task = self._open[key]
        if not channel.users:
            task.cancel()
            del self._open[key]

    async def close(self) -> None:
        """Ends all streams."""
        for channel, task in list(self._open.values()):
            task.cancel()
            for one in list(channel.listeners):
                one.close()


def _message(shown: Mapping[str, Piece], pieces: Mapping[str, str]) -> bytes:
    """Returns the Server-Sent Event that replaces these pieces; b"" without any."""
    if not pieces:
        return b""
    parts = (
        f'<hx-partial hx-target="[id=\'{at}\']" hx-swap="outerMorph">{html}</hx-partial>'
        for at, html in pieces.items()
    )
    data = "".join(parts).replace("\r", "").replace("\n", "\ndata: ")
    return f"id: {digest(shown)}\ndata: {data}\n\n".encode()
