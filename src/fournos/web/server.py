"""The server of the page: routes, the order of checks, pages that are kept, errors as pages."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shlex
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from aiohttp import web

from fournos.client.errors import FournosError
from fournos.engine.runtime.listening import RateLimit
from fournos.insight.errors import KubeError
from fournos.insight.readable import ReadableSource
from fournos.web.errors import LoginNeededError, PageError, page_error
from fournos.web.people import People
from fournos.web.render import PREFIX, Frame, Link
from fournos.web.requests import (
    COOKIE,
    HTTPS_ONLY,
    PRIVATE,
    SECURITY,
    Sending,
    check_host,
    check_origin,
    notice_of,
    posted,
    take,
    with_notice,
)
from fournos.web.site import Action, Call, Done, Download, Kept, Page, ShownPage, Site, Viewer, arrived

PAGES: Final = 64
"""Rendered pages that are kept; the least recently used one goes first."""
_TRIES: Final = 3


class _WithdrawnError(Exception):
    """The person for whom a page was rendered has other rights than those it is kept for."""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """The content of a page."""

    html: str
    digest: str
    """The same for the same content, in all replicas."""
    lasts: bool
    """False if it may change: an open tab asks for it again."""


class PageContent(Kept[Hashable]):
    """Renders pages, and keeps those that open tabs ask for again and again."""

    def __init__(self, site: Site) -> None:
        super().__init__(PAGES)
        self._site = site

    async def of(self, page: Page, call: Call, target: str) -> RenderedPage:
        """Returns the page for the person of the call; `target` is its path with the query."""
        if not page.watched:
            return await self._gathered(page, call)
        for _ in range(_TRIES):
            rights = await call.viewer.rights.permission_class()
            # What is read with the person's own credentials is that person's.
            key = (rights, "" if page.shared else call.viewer.key, target)
            try:
                return await self._current(page, call, key, rights)
            except _WithdrawnError:  # of whoever renders it for several persons
                continue
        raise PageError(
            503, "Rights are changing", "Your rights are changing at the moment.", "Load the page again."
        )

    async def _current(self, page: Page, call: Call, key: Hashable, rights: str) -> RenderedPage:
        async def render() -> RenderedPage:
            content = await self._gathered(page, call)
            # Whatever right changed meanwhile: the page that others get is one of their class.
            if await call.viewer.rights.permission_class() != rights:
                raise _WithdrawnError
            return content

        age = int(call.now.timestamp() // page.fresh)
        revision = (self._site.caches.revision(page.watched), age)
        return await self.kept(key, revision, lambda rendered: rendered == revision, render)

    async def _gathered(self, page: Page, call: Call) -> RenderedPage:
        try:
            return self.rendered(page, await page.gather(call))
        except (PageError, KubeError, FournosError):
            raise
        except Exception as error:
            # One object of many that cannot be read: the others are shown, and it with its problem.
            log.warning("page %s: an object cannot be read: %s: %s", page.name, type(error).__name__, error)
            source = ReadableSource(call.viewer.source)
            readable = replace(call, viewer=replace(call.viewer, source=source))
            return self.rendered(page, await page.gather(readable))

    def rendered(self, page: Page, data: Mapping[str, Any]) -> RenderedPage:
        html = self._site.renderer.content(page.name, data)
        digest = hashlib.sha256(html.encode()).hexdigest()[:16]
        return RenderedPage(html, digest, lasts=not page.watched or bool(data.get("lasts")))


# --- the server -----------------------------------------------------------------------------------


log = logging.getLogger(__name__)
audit = logging.getLogger(f"{__name__}.audit")

LARGEST: Final = 2**20
"""Maximum bytes of a form."""
READS: Final = (20.0, 200)
"""Pages per second and at once of one person."""
WRITES: Final = (1.0, 30)
_VIEWER: Final = web.RequestKey("viewer", Viewer)
"""In a request: its person, for an error that is found later."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer:
    """Serves pages, actions and downloads."""

    def __init__(
        self,
        site: Site,
        people: People,
        pages: Sequence[Page],
        actions: Sequence[Action] = (),
        downloads: Sequence[Download] = (),
        *,
        hosts: Set[str] = frozenset(),
        https: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hosts`: the values of the Host header that are answered; empty: any."""
        self._site = site
        self._people = people
        self._pages = tuple(pages)
        self._actions = tuple(actions)
        self._downloads = tuple(downloads)
        self._sending = Sending()
        self._hosts = hosts
        self._headers = {**SECURITY, **(HTTPS_ONLY if https else {})}
        self._content = PageContent(site)
        self._reads = RateLimit(*READS, monotonic=monotonic)
        self._writes = RateLimit(*WRITES, monotonic=monotonic)
        self._nav = [Link(page.title, page.path) for page in pages if page.in_nav]

    def app(self) -> web.Application:
        """The application, for a server or for a test."""
        app = web.Application(client_max_size=LARGEST, middlewares=[self._guard])
        app.router.add_get(PREFIX + "{digest}/{name:.+}", self._site.renderer.assets.serve)
        app.add_routes(self._people.routes())
        for page in self._pages:
            app.router.add_get(page.path, partial(self._show, page))
        for action in self._actions:
            app.router.add_post(action.path, partial(self._act, action))
        for download in self._downloads:
            app.router.add_get(download.path, partial(self._send, download))
        app.on_response_prepare.append(self._secure)
        return app

    # --- pages ---------------------------------------------------------------------------------------

    async def _show(self, page: Page, request: web.Request) -> web.StreamResponse:
        call = await self._call(request)
        content = await self._content.of(page, call, request.path_qs)
        notice = notice_of(request)
        # What is around the content: it differs by person and by version.
        around = _short(call.viewer.name + self._site.renderer.assets.version)
        tag = f'W/"{content.digest}-{around}"'
        headers = {"Cache-Control": PRIVATE, "ETag": tag}
        if not notice and request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        response = self._whole(page, call, content, tag="" if content.lasts else tag, notice=notice)
        response.headers.update(headers)
        if notice:
            response.del_cookie(COOKIE)
        return response

    def _whole(
        self, page: Page, call: Call, content: RenderedPage, *, tag: str = "", notice: str = ""
    ) -> web.Response:
        viewer = call.viewer
        frame = Frame(
            title=page.title.format_map(call.path),
            nav=self._nav,
            path=page.path,
            under=page.under,
            user=viewer.name,
            tag=tag,
            command=_command(page, call.path, call.site.jobs_namespace),
            notice=notice,
        )
        body = self._site.renderer.whole(frame, content.html).encode()
        response = web.Response(body=body, content_type="text/html", charset="utf-8")
        response.enable_compression()
        return response

    async def _call(self, request: web.Request) -> Call:
        viewer = await self._people.viewer(request)
        request[_VIEWER] = viewer
        take(self._reads, viewer.name)
        return Call(self._site, viewer, self._site.now(), dict(request.match_info), request.query)

    # --- actions -------------------------------------------------------------------------------------

    async def _act(self, action: Action, request: web.Request) -> web.StreamResponse:
        call = await self._call(request)
        take(self._writes, call.viewer.name)
        form = await posted(request)
        outcome = "failed"
        try:
            done = await action.act(call, form)
            outcome = "done" if isinstance(done, Done) else "shown again"
        except (PageError, KubeError, FournosError) as error:
            found = page_error(error)
            outcome = f"refused with {found.status}" if found else outcome
            raise
        finally:
            # Quoted: names of objects may hold what a terminal would obey.
            audit.info("%s by %r: %r: %s", action.name, call.viewer.name, request.path, outcome)
        if isinstance(done, ShownPage):
            response = self._whole(done.page, call, self._content.rendered(done.page, done.data))
            response.set_status(done.status)
            response.headers["Cache-Control"] = "no-store"
            return response
        # What a person has changed is shown at once, also where no watch reports it.
        self._content.clear()
        self._site.memo.clear()
        if done.wrote:
            await arrived(self._site.caches, done.wrote)
        return with_notice(web.Response(status=303, headers={"Location": done.location}), done.notice)

    async def _send(self, download: Download, request: web.Request) -> web.StreamResponse:
        call = await self._call(request)
        with self._sending.counted(call.viewer.name):
            return await self._sending.send(request, await download.open(call))

    # --- around every request ------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check_host(request, self._hosts)
            check_origin(request, self._hosts)
            response = await handler(request)
        except web.HTTPNotFound:
            response = self._failed(
                request, PageError(404, "Not here", "There is no such page.", "Check the address.")
            )
        except web.HTTPRequestEntityTooLarge:
            response = self._failed(request, PageError(413, "Too large", "The form is too large."))
        except web.HTTPException:
            raise
        except (PageError, KubeError, FournosError) as error:
            response = self._failed(request, page_error(error) or _fault())
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("%s %r failed", request.method, request.path)
            response = self._failed(request, _fault())
        return response

    async def _secure(self, _: web.Request, response: web.StreamResponse) -> None:
        """Called for each response, also for one that aiohttp makes before the handlers."""
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)

    def _failed(self, request: web.Request, error: PageError) -> web.Response:
        nav = () if isinstance(error, LoginNeededError) else self._nav
        viewer = request.get(_VIEWER)
        frame = Frame(title=error.title, nav=nav, path="", user=viewer.name if viewer else "")
        content = self._site.renderer.content("error", {"error": error, "path": request.path})
        return web.Response(
            status=error.status,
            text=self._site.renderer.whole(frame, content),
            content_type="text/html",
            headers={"Cache-Control": "no-store", **error.headers},
        )


def _command(page: Page, path: Mapping[str, str], namespace: str) -> str:
    """Returns the command that shows the same; people copy it, so what an address holds is quoted."""
    quoted = {name: shlex.quote(value) for name, value in path.items()}
    jobs = f" -n {namespace}" if namespace else ""
    return page.command.format_map({"jobs": jobs, "all_jobs": jobs or " -A", **quoted})


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _fault() -> PageError:
    return PageError(
        500,
        "A fault of this page",
        "The request failed. The log of the page has the cause.",
        "Load the page again. If it fails again, report it with that part of the log.",
    )
