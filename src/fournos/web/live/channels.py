"""Channels: one for each page and class of permissions.  A change is rendered once and sent to all its tabs.

A channel works only while a tab listens and an object changes: an idle tab costs one comment each
`HEARTBEAT` seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from typing import Final

from markupsafe import Markup, escape

from fournos.web.errors import page_error
from fournos.web.live.following import PageWatches
from fournos.web.live.pieces import ROOT, Piece, changed, digest

log = logging.getLogger(__name__)

REST: Final = 0.2
"""Seconds between two renderings of a channel at least: a burst of changes is rendered once."""
SHARE: Final = 0.2
"""The part of its time that a channel may spend on rendering: a heavy page takes a fifth of a core."""
AGAIN: Final = 5.0
"""Seconds after which a rendering that failed is repeated, also without a change."""
HEARTBEAT: Final = 15.0
"""Seconds after which a silent stream sends a comment, because proxies close idle connections."""
PENDING: Final = 8
"""Messages that wait for a slow reader; more are replaced by the whole page."""

Render = Callable[[PageWatches], Awaitable[Mapping[str, Piece]]]
"""Called with the watches of the channel."""


class FullError(Exception):
    """The person or the replica has its maximum of streams; the tab polls every few seconds instead."""


class WithdrawnError(Exception):
    """The person for whom a page is rendered has other rights than those of the channel."""


class Listener:
    """An open tab."""

    def __init__(self, render: Render, whole: Callable[[], bytes]) -> None:
        """`render` renders the page for the person of the tab; `whole` returns the page as it is now."""
        self.render = render
        self._whole = whole
        self._pending: deque[bytes] = deque()
        self._there = asyncio.Event()
        self._behind = False
        """True if messages were dropped: the whole page comes in their place."""
        self.closed = False

    def put(self, message: bytes) -> None:
        self._there.set()
        if self._behind or len(self._pending) >= PENDING:
            self._pending.clear()
            self._behind = True
        else:
            self._pending.append(message)

    def put_whole(self) -> None:
        """The tab shows something else than the channel."""
        self._behind = True
        self._there.set()

    def close(self) -> None:
        self.closed = True
        self._there.set()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Yields what to send; b"" after each `HEARTBEAT` of silence.  Ends after `close`."""
        while not self.closed:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._there.wait()
            except TimeoutError:
                yield b""
                continue
            self._there.clear()
            while (self._pending or self._behind) and not self.closed:
                if self._behind:
                    self._behind = False
                    yield self._whole()
                else:
                    yield self._pending.popleft()


class _Channel:
    """The tabs that show one page to persons with the same rights."""

    def __init__(
        self,
        revision: Callable[[], Hashable],
        watches: set[asyncio.Task[None]],
        failed: Callable[[], None],
    ) -> None:
        self._revision = revision
        self._failed = failed
        self._faulty = False
        """True while renderings end with an unexpected error, which is reported already."""
        self._seen: Hashable = None
        self._whole = b""
        self.shown: Mapping[str, Piece] = {}
        self.listeners: dict[Listener, None] = {}
        """In the order in which they joined."""
        self.joining: dict[Listener, str] = {}
        """Those whose tab shows something else, with the digest of that: what it shows may be newer."""
        self.poke = asyncio.Event()
        self.following = PageWatches(self.poke.set, watches)
        self.ready = asyncio.Event()
        """Set after the first rendering, successful or not."""

    def whole(self) -> bytes:
        """Returns the message with the whole page."""
        if not self._whole:
            self._whole = _message(self.shown, {ROOT: self.shown[ROOT].html})
        return self._whole

    async def run(self) -> None:
        while True:
            self.poke.clear()
            began, done = time.process_time(), True
            try:
                revision = (self._revision(), self.following.changes)
                if revision != self._seen or not self.shown or self.joining:
                    done = await self._update(revision)
            except Exception:  # a fault of the page: its tabs must not go on showing what is old
                log.exception("live: an update failed; its tabs connect again")
                self._failed()
                self._seen, done = None, False
                for listener in self.listeners:
                    listener.close()
            self.ready.set()
            spent = time.process_time() - began
            await asyncio.sleep(max(REST, spent / SHARE - spent))
            with suppress(TimeoutError):
                async with asyncio.timeout(None if done else AGAIN):
                    await self.poke.wait()

    async def _update(self, revision: Hashable) -> bool:
        """Renders and sends what changed; returns False if that failed."""
        joining, self.joining = self.joining, {}
        pieces = await self._render([*joining, *(one for one in self.listeners if one not in joining)])
        if pieces is None:
            self.joining = {**joining, **self.joining}
            return False
        self._seen, self._whole, self._faulty = revision, b"", False
        before, self.shown = self.shown, pieces
        message = _message(pieces, dict(changed(before, pieces)) if before else {})
        for listener in self.listeners if message else ():
            listener.put(message)
        for listener, at in joining.items():
            if digest(pieces) != at:
                listener.put_whole()
        return True

    async def _render(self, order: Sequence[Listener]) -> Mapping[str, Piece] | None:
        """Renders as one of the persons, all of whom see the same; one whose rights changed leaves.

        Those who join come first: what the others have kept of earlier renderings is older.
        """
        for listener in order:
            try:
                return await listener.render(self.following)
            except WithdrawnError:
                listener.close()
                self.listeners.pop(listener, None)
            except Exception as error:
                self._report(error)
                return None
        return None

    def _report(self, error: Exception) -> None:
        """Reports a rendering that failed; a fault of the page once, until a rendering succeeds."""
        if self._faulty or page_error(error) is not None:
            log.info("live: a page was not rendered: %s", type(error).__name__)
            return
        log.error("live: a page cannot be rendered; its tabs show what is old", exc_info=error)
        self._failed()
        self._faulty = True


class Channels:
    """All channels of one server."""

    def __init__(
        self, *, most: int = 1000, most_each: int = 20, failed: Callable[[], None] = lambda: None
    ) -> None:
        """`most`: streams of all persons; `most_each`: of one person.

        `failed` is called when an update ends with an unexpected error, which closes its streams, and when
        renderings begin to do so, which are repeated.
        """
        self._failed = failed
        self._most = most
        self._most_each = most_each
        self._open: dict[Hashable, tuple[_Channel, asyncio.Task[None]]] = {}
        self._counts: dict[str, int] = {}
        self._users: dict[Hashable, int] = {}
        """The tabs of each channel."""
        self._watches: set[asyncio.Task[None]] = set()
        """Those of all channels."""

    def poke(self) -> None:
        """Notifies all channels that a watched object has changed."""
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
        self._users[key] = self._users.get(key, 0) + 1
        channel = self._join(key, revision)
        listener = Listener(render, channel.whole)
        channel.listeners[listener] = None
        if not channel.shown or digest(channel.shown) != at:
            channel.joining[listener] = at
            channel.poke.set()
        try:
            await channel.ready.wait()
            yield listener
        finally:
            channel.listeners.pop(listener, None)
            channel.joining.pop(listener, None)
            self._counts[person] -= 1
            if not self._counts[person]:
                del self._counts[person]
            self._leave(key)

    def _join(self, key: Hashable, revision: Callable[[], Hashable]) -> _Channel:
        if key not in self._open:
            channel = _Channel(revision, self._watches, self._failed)
            self._open[key] = channel, asyncio.create_task(channel.run())
        return self._open[key][0]

    def _leave(self, key: Hashable) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]
            channel, task = self._open.pop(key)
            task.cancel()
            channel.following.close()

    async def close(self) -> None:
        """Ends all streams."""
        for channel, task in list(self._open.values()):
            task.cancel()
            channel.following.close()
            channel.ready.set()
            for one in list(channel.listeners):
                one.close()


def _message(shown: Mapping[str, Piece], pieces: Mapping[str, str]) -> bytes:
    """Returns the Server-Sent Event that replaces these pieces; b"" without any."""
    if not pieces:
        return b""
    parts = (
        f'<hx-partial hx-target="{_selector(at)}" hx-swap="outerMorph">{html}</hx-partial>'
        for at, html in pieces.items()
    )
    data = "".join(parts).replace("\r", "").replace("\n", "\ndata: ")
    return f"id: {digest(shown)}\ndata: {data}\n\n".encode()


def _selector(id: str) -> Markup:
    """Returns the CSS selector of an id with any characters, for an attribute."""
    quoted = id.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\a ")
    return escape(f"[id='{quoted}']")
