"""The stream of a tab: what changes on its page, until its person's session or rights end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web
from multidict import MultiDict
from yarl import URL

from fournos.client.errors import FournosError
from fournos.engine.kube.errors import KubeError
from fournos.engine.runtime.listening import cut
from fournos.web.content import PageContent
from fournos.web.errors import PageError, page_error
from fournos.web.identity.people import People
from fournos.web.lasting import Lasting
from fournos.web.live.channels import Channels, FullError, Listener, WithdrawnError
from fournos.web.live.following import PageWatches
from fournos.web.live.pieces import CSRF, Piece
from fournos.web.routes import Call, Page
from fournos.web.site import Site
from fournos.web.viewer import Viewer

SLOW: Final = 30.0
"""Seconds for which a reader may take nothing before its stream is closed."""
COMMENT: Final = b": \n\n"
BUSY: Final = {"Retry-After": "5"}
"""The interval in seconds at which a tab without a stream requests changes (see app.js)."""
_NO_LONGER: Final = (403, 404)
"""The statuses of a page whose content an open tab must not go on showing."""


class Streams:
    """Serves /live?to=PATH&at=DIGEST."""

    def __init__(
        self,
        site: Site,
        people: People,
        content: PageContent,
        pages: Sequence[Page],
        *,
        most: int,
        failed: Callable[[], None],
    ) -> None:
        """`failed` is called when an update fails unexpectedly."""
        self._site = site
        self._people = people
        self._content = content
        self._paths = [(re.compile(_pattern(page.path)), page) for page in pages if page.watched]
        self.channels = Channels(most=most, failed=failed)

    async def follow(self) -> None:
        """Brings changes of watched objects to the open tabs until cancelled."""
        while True:
            await self._site.caches.change()
            self.channels.poke()

    async def serve(self, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        page, path, target = self._target(request.query.get("to", ""))
        rights = await viewer.rights.permission_class()
        key = (rights if page.shared else (rights, viewer.csrf), str(target))
        at = request.headers.get("Last-Event-ID") or request.query.get("at", "")
        call = Call(self._site, viewer, self._site.now(), path, MultiDict(target.query))

        async def render(following: PageWatches) -> Mapping[str, Piece]:
            own = None if page.shared else following
            again = replace(call, now=self._site.now(), following=own)
            try:
                return await self._content.of_class(page, again, str(target), rights)
            except (PageError, KubeError, FournosError) as error:
                shown = page_error(error)
                if shown is None or shown.status not in _NO_LONGER:
                    raise
                # Other persons of the channel may see the page.
                if await viewer.rights.permission_class() != rights:
                    raise WithdrawnError from None
                return self._content.failed(shown, target.path)

        revision = partial(self._site.caches.revision, page.watched)
        try:
            async with self.channels.listen(key, viewer.name, at, render, revision) as listener:
                reads = await viewer.rights.reads(page.watched)
                lasting = Lasting(self._people, request, reads, permission_class=rights)
                return await self._stream(request, viewer, listener, lasting)
        except FullError:
            raise PageError(
                503, "Too many open tabs", "As many live pages as allowed are open.", headers=BUSY
            ) from None

    def _target(self, to: str) -> tuple[Page, Mapping[str, str], URL]:
        """Returns the page of a path, its variables, and the path itself.  Raises PageError."""
        with suppress(ValueError):
            target = URL(to)
            for pattern, page in self._paths:
                if not target.absolute and (match := pattern.fullmatch(target.path)):
                    return page, match.groupdict(), target
        raise PageError(404, "Not here", "This page has no live updates.")

    async def _stream(
        self, request: web.Request, viewer: Viewer, listener: Listener, lasting: Lasting
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        with suppress(ConnectionError):  # the tab was closed
            await response.prepare(request)
            await response.write(COMMENT)  # the head leaves with the first bytes: the tab is connected now
            await self._send(request, response, viewer, listener, lasting)
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        viewer: Viewer,
        listener: Listener,
        lasting: Lasting,
    ) -> None:
        csrf = viewer.csrf.encode()
        async with aclosing(listener.messages()) as messages:
            async for message in messages:
                if not await lasting.goes_on():
                    return
                try:
                    async with asyncio.timeout(SLOW):
                        await response.write(message.replace(CSRF.encode(), csrf) or COMMENT)
                except TimeoutError:
                    cut(request)  # what is buffered would be kept for ever
                    return


def _pattern(path: str) -> str:
    """Returns a regular expression for a path with variables in braces."""
    parts = re.split(r"\{(\w+)\}", path)
    return "".join(
        re.escape(part) if number % 2 == 0 else f"(?P<{part}>[^/]+)" for number, part in enumerate(parts)
    )
