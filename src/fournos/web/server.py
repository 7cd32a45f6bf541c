"""The server of the page: routes, the order of checks, errors as pages, live streams."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from multidict import MultiDict
from yarl import URL

from fournos.client.errors import FournosError
from fournos.kube.errors import KubeError
from fournos.web.assets import PREFIX
from fournos.web.errors import LoginNeededError, PageError, page_error
from fournos.web.headers import PRIVATE, SECURITY, check_host, check_origin
from fournos.web.identity.people import People
from fournos.web.live.channels import Channels, FullError, digest
from fournos.web.live.pieces import Piece
from fournos.web.live.shared import Shared
from fournos.web.notices import COOKIE, notice_of, with_notice
from fournos.web.render import Frame, Link
from fournos.web.routes import Action, Call, Done, Page, Shown, Stream
from fournos.web.sending import Sending
from fournos.web.site import Site
from fournos.web.viewer import Viewer

log = logging.getLogger(__name__)
audit = logging.getLogger(f"{__name__}.audit")

LARGEST: Final = 2**20
"""Maximum bytes of a form."""
_SLOW: Final = 30.0
"""Seconds for which a reader may take nothing before its stream is closed."""
_RECHECK: Final = 60.0
"""Seconds after which the rights of an open stream's person are checked again."""
_CLOSING: Final = 2.0
_FRESH: Final = 30.0
"""Seconds after which a page is rendered again though no watched object has changed."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer:
    """Serves pages and actions.  Use `async with`: the watched objects reach open tabs while it runs."""

    def __init__(
        self,
        site: Site,
        people: People,
        pages: Sequence[Page],
        actions: Sequence[Action] = (),
        sent: Sequence[Stream] = (),
        *,
        hosts: Set[str] = frozenset(),
        streams: int = 1000,
    ) -> None:
        """`hosts`: the values of the Host header that are answered; empty: any."""
        self._site = site
        self._people = people
        self._pages = tuple(pages)
        self._actions = tuple(actions)
        self._sent = tuple(sent)
        self._sending = Sending(most=streams)
        self._hosts = hosts
        self.channels = Channels(most=streams)
        self._shared = Shared()
        self._mark = secrets.token_hex(16)
        """Stands for the token of a session in what is rendered for several persons."""
        self._nav = [Link(page.title, page.path) for page in pages if page.in_nav]
        self._paths = [(re.compile(_pattern(page.path)), page) for page in pages]

    def app(self) -> web.Application:
        """The application, for a server or for a test."""
        app = web.Application(client_max_size=LARGEST, middlewares=[self._guard])
        app.router.add_get(PREFIX + "{digest}/{name:.+}", self._site.assets.serve)
        app.router.add_get("/live", self._live)
        app.add_routes(self._people.routes())
        for page in self._pages:
            app.router.add_get(page.path, partial(self._show, page))
        for action in self._actions:
            app.router.add_post(action.path, partial(self._act, action))
        for stream in self._sent:
            app.router.add_get(stream.path, partial(self._content, stream))
        app.on_shutdown.append(self._close)
        app.cleanup_ctx.append(self._following)
        return app

    # --- pages ---------------------------------------------------------------------------------------

    async def _show(self, page: Page, request: web.Request) -> web.StreamResponse:
        call = await self._call(request, request.match_info, request.query)
        pieces = await self._pieces(page, call, request.path_qs)
        live = ""
        if page.watched:
            live = "/live?" + urlencode({"to": request.path_qs, "at": digest(pieces)})
        notice = notice_of(request)
        # The token of the forms is not part of the digest: it differs by session.
        tag = f'W/"{digest(pieces)}-{_short(call.viewer.csrf)}"'
        headers = {"Cache-Control": PRIVATE, "ETag": tag, "Vary": "Cookie"}
        if not notice and request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        response = self._whole(page, call, pieces, live=live, notice=notice)
        response.headers.update(headers)
        if notice:
            response.del_cookie(COOKIE)
        return response

    def _whole(
        self, page: Page, call: Call, pieces: Mapping[str, Piece], *, live: str = "", notice: str = ""
    ) -> web.Response:
        frame = Frame(
            title=page.title.format_map(call.path),
            nav=self._nav,
            path=page.path,
            user=call.viewer.name,
            csrf=call.viewer.csrf,
            live=live,
            command=page.command.format_map(call.path) if page.command else "",
            notice=notice,
        )
        body = self._signed(self._site.renderer.whole(frame, pieces).encode(), call.viewer)
        response = web.Response(body=body, content_type="text/html", charset="utf-8")
        response.enable_compression()
        return response

    async def _call(self, request: web.Request, path: Mapping[str, str], query: Any) -> Call:
        viewer = await self._people.viewer(request)
        return Call(self._site, viewer, self._site.now(), dict(path), query)

    async def _pieces(self, page: Page, call: Call, target: str) -> Mapping[str, Piece]:
        """Renders the content of a page, once for all persons with the same rights if it is shared."""

        async def render() -> Mapping[str, Piece]:
            return self._rendered(page, await page.gather(call))

        if not page.shared or not page.watched:
            return await render()
        rights = await call.viewer.rights.permission_class()
        age = int(call.now.timestamp() // _FRESH)
        revision = (self._site.caches.revision(page.watched), age)
        return await self._shared.get((rights, target), revision, render)

    def _rendered(self, page: Page, data: Mapping[str, Any]) -> Mapping[str, Piece]:
        return self._site.renderer.pieces(page.name, {"csrf": self._mark, **data})

    def _signed(self, content: bytes, viewer: Viewer) -> bytes:
        """Puts the person's own token into the forms."""
        return content.replace(self._mark.encode(), viewer.csrf.encode())

    # --- actions -------------------------------------------------------------------------------------

    async def _act(self, action: Action, request: web.Request) -> web.StreamResponse:
        check_origin(request)
        call = await self._call(request, request.match_info, request.query)
        form = {name: str(value) for name, value in (await request.post()).items()}
        if not hmac.compare_digest(form.pop("csrf", "").encode(), call.viewer.csrf.encode()):
            raise PageError(403, "Refused", "The form is not of this session.", "Load the page again.")
        outcome = "failed"
        try:
            done = await action.act(call, form)
            outcome = "done" if isinstance(done, Done) else "shown again"
        finally:
            audit.info("%s by %s: %s: %s", action.name, call.viewer.name, request.path, outcome)
        if isinstance(done, Shown):
            response = self._whole(done.page, call, self._rendered(done.page, done.data))
            response.set_status(done.status)
            response.headers["Cache-Control"] = "no-store"
            return response
        return with_notice(web.Response(status=303, headers={"Location": done.location}), done.notice)

    async def _content(self, stream: Stream, request: web.Request) -> web.StreamResponse:
        call = await self._call(request, request.match_info, request.query)
        with self._sending.counted(call.viewer.name):
            return await self._sending.send(request, await stream.open(call))

    # --- live ----------------------------------------------------------------------------------------

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """The stream of one tab: /live?to=PATH&at=DIGEST."""
        target = URL(request.query.get("to", ""))
        found = next(
            ((page, match) for pattern, page in self._paths if (match := pattern.fullmatch(target.path))),
            None,
        )
        if found is None or not found[0].watched or target.absolute:
            raise PageError(404, "Not here", "This page has no live updates.")
        page, match = found
        call = await self._call(request, match.groupdict(), MultiDict(target.query))
        rights = await call.viewer.rights.permission_class()
        key = (rights if page.shared else (rights, call.viewer.csrf), str(target))
        at = request.headers.get("Last-Event-ID") or request.query.get("at", "")

        async def render() -> Mapping[str, Piece]:
            return await self._pieces(page, replace(call, now=self._site.now()), str(target))

        revision = partial(self._site.caches.revision, page.watched)
        try:
            async with self.channels.listen(key, call.viewer.name, at, render, revision) as listener:
                return await self._stream(request, call.viewer, rights, listener)
        except FullError:
            raise PageError(503, "Too many open tabs", "No further live stream is open.") from None

    async def _stream(
        self, request: web.Request, viewer: Viewer, rights: str, listener: Any
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **SECURITY}
        )
        response.content_type = "text/event-stream"
        with suppress(ConnectionError):  # the tab was closed
            await response.prepare(request)
            await self._pass_on(request, response, viewer, rights, listener)
        return response

    async def _pass_on(
        self, request: web.Request, response: web.StreamResponse, viewer: Viewer, rights: str, listener: Any
    ) -> None:
        checked = asyncio.get_running_loop().time()
        async for message in listener.messages():
            if (now := asyncio.get_running_loop().time()) - checked > _RECHECK:
                checked = now
                current = await self._people.viewer(request)
                if await current.rights.permission_class() != rights:
                    break
            async with asyncio.timeout(_SLOW):
                await response.write(self._signed(message, viewer) or b": \n\n")

    async def _following(self, _: web.Application) -> Any:
        task = asyncio.create_task(self._follow())
        yield
        task.cancel()

    async def _follow(self) -> None:
        while True:
            await self._site.caches.change()
            self.channels.poke()

    async def _close(self, _: web.Application) -> None:
        await self.channels.close()

    # --- around every request ------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check_host(request, self._hosts)
            response = await handler(request)
        except web.HTTPNotFound:
            response = self._failed(request, PageError(404, "Not here", "There is no such page."))
        except web.HTTPException as error:
            response = error
        except (PageError, KubeError, FournosError) as error:
            response = self._failed(request, page_error(error) or _fault())
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = self._failed(request, _fault())
        if not response.prepared:
            response.headers.update(SECURITY)
        return response

    def _failed(self, request: web.Request, error: PageError) -> web.Response:
        frame = Frame(
            title=error.title, nav=() if isinstance(error, LoginNeededError) else self._nav, path=""
        )
        pieces = self._site.renderer.pieces("error", {"error": error, "path": request.path})
        return web.Response(
            status=error.status,
            text=self._site.renderer.whole(frame, pieces),
            content_type="text/html",
            headers={"Cache-Control": "no-store"},
        )


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _fault() -> PageError:
    return PageError(500, "A fault of this page", "The request failed. The log of the page has the cause.")


def _pattern(path: str) -> str:
    """Returns a regular expression for a path with variables in braces."""
    parts = re.split(r"\{(\w+)\}", path)
    return "".join(
        re.escape(part) if number % 2 == 0 else f"(?P<{part}>[^/]+)" for number, part in enumerate(parts)
    )
