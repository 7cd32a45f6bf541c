"""What pages show: gathered and rendered, once for all persons with the same rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.web.errors import PageError
from fournos.web.live.channels import WithdrawnError
from fournos.web.live.pieces import CSRF, Piece
from fournos.web.memo import RenderedPages
from fournos.web.routes import Call, Page
from fournos.web.site import Site

_FRESH: Final = 30.0
"""Seconds after which a page is rendered again though no watched object has changed."""
_TRIES: Final = 3


class PageContent:
    """Renders pages in pieces."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._pages = RenderedPages()

    async def of(self, page: Page, call: Call, target: str) -> Mapping[str, Piece]:
        """Returns the page for the person of the call; `target` is its path with the query."""
        for _ in range(_TRIES):
            rights = await call.viewer.rights.permission_class() if _is_shared(page) else ""
            try:
                return await self.of_class(page, call, target, rights)
            except WithdrawnError:  # of whoever renders it for several persons
                continue
        raise PageError(
            503, "Rights are changing", "Your rights are changing at the moment.", "Load the page again."
        )

    async def of_class(self, page: Page, call: Call, target: str, rights: str) -> Mapping[str, Piece]:
        """Returns the page as all persons of a class see it.

        Raises WithdrawnError if the person who renders it is of another class afterwards: whatever right
        changed meanwhile, the page that others get is one of their class.
        """
        if not _is_shared(page):
            return self.rendered(page, await page.gather(call))

        async def render() -> Mapping[str, Piece]:
            pieces = self.rendered(page, await page.gather(call))
            if await call.viewer.rights.permission_class() != rights:
                raise WithdrawnError
            return pieces

        age = int(call.now.timestamp() // _FRESH)
        revision = (self._site.caches.revision(page.watched), age)
        return await self._pages.get((rights, target), revision, render)

    def failed(self, error: PageError, path: str) -> Mapping[str, Piece]:
        """Returns what is shown in place of the page of a path."""
        return self._site.renderer.pieces("error", {"error": error, "path": path})

    def rendered(self, page: Page, data: Mapping[str, Any]) -> Mapping[str, Piece]:
        return self._site.renderer.pieces(page.name, {"csrf": CSRF, **data})


def _is_shared(page: Page) -> bool:
    return page.shared and bool(page.watched)
