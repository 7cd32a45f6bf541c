"""What pages show: rendered once for all persons with the same rights, until a watched object changes."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.web.errors import PageError
from fournos.web.memo import Kept
from fournos.web.routes import Call, Page
from fournos.web.site import Site

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

    def __init__(self, site: Site, most: int = PAGES) -> None:
        super().__init__(most)
        self._site = site

    async def of(self, page: Page, call: Call, target: str) -> RenderedPage:
        """Returns the page for the person of the call; `target` is its path with the query."""
        if not page.watched:
            return self.rendered(page, await page.gather(call))
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
            content = self.rendered(page, await page.gather(call))
            # Whatever right changed meanwhile: the page that others get is one of their class.
            if await call.viewer.rights.permission_class() != rights:
                raise _WithdrawnError
            return content

        age = int(call.now.timestamp() // page.fresh)
        revision = (self._site.caches.revision(page.watched), age)
        return await self.kept(key, revision, lambda rendered: rendered == revision, render)

    def rendered(self, page: Page, data: Mapping[str, Any]) -> RenderedPage:
        html = self._site.renderer.content(page.name, data)
        digest = hashlib.sha256(html.encode()).hexdigest()[:16]
        return RenderedPage(html, digest, lasts=not page.watched or bool(data.get("lasts")))
