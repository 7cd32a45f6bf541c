"""Pages without a server: a viewer over an API server in memory, and the data that a page gathers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from multidict import MultiDict

from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.resource import Resource
from fournos.insight.caches import ObjectCaches
from fournos.web.pages.all_pages import WATCHED
from fournos.web.site import Call, Page, Site, Viewer
from tests.unit.client.world import NS, Api

NOW = datetime(2030, 1, 1, 1, tzinfo=UTC)
"""One hour after the clock of the API server in memory."""


@dataclass
class AllRights:
    """May do everything except what is denied, as "verb plural" or "verb plural/subresource"."""

    denied: set[str] = field(default_factory=set)

    async def may(
        self, verb: str, resource: Resource, namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> bool:
        what = f"{resource.plural}/{subresource}" if subresource else resource.plural
        return f"{verb} {what}" not in self.denied

    async def permission_class(self) -> str:
        return "all"


@dataclass
class Visit:
    """A person on the pages of one cluster."""

    api: Api
    site: Site
    viewer: Viewer

    def call(self, query: Mapping[str, str] | Iterable[tuple[str, str]] = (), **path: str) -> Call:
        return Call(self.site, self.viewer, NOW, {"namespace": NS, **path}, MultiDict(query))

    async def show(
        self, page: Page, query: Mapping[str, str] | Iterable[tuple[str, str]] = (), **path: str
    ) -> str:
        """The HTML of a page's content."""
        data = await page.gather(self.call(query, **path))
        return self.site.renderer.content(page.name, data)


@asynccontextmanager
async def visit(api: Api, rights: AllRights | None = None) -> AsyncIterator[Visit]:
    """`api` must have its objects before."""
    async with ObjectCaches(api, dict.fromkeys(WATCHED, "")) as caches:
        client = AsyncClient(api=api, namespace=NS, owner="perf")
        viewer = Viewer("ann", caches, client, rights or AllRights(), "ann")
        site = Site(caches, "", "hearth", lambda: NOW)
        yield Visit(api, site, viewer)


async def show(
    api: Api,
    page: Page,
    query: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    *,
    rights: AllRights | None = None,
    **path: str,
) -> str:
    """The HTML of a page's content, to one request."""
    async with visit(api, rights) as here:
        return await here.show(page, query, **path)
