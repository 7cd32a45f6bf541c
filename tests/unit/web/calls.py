"""Requests to pages without a server: objects in memory, the client on top of them, chosen rights."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.resource import Resource
from fournos.insight.caches import ObjectCaches
from fournos.web.pages import submit
from fournos.web.render import Renderer
from fournos.web.site import Call, Page, ShownPage, Site, Viewer
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS

_RENDERER = Renderer()


@dataclass(frozen=True, slots=True)
class Verbs:
    """A person who has the rights to these verbs, on everything."""

    verbs: Collection[str]

    async def may(self, verb: str, resource: Resource, namespace: str = "", **_: str) -> bool:
        return verb in self.verbs

    async def permission_class(self) -> str:
        return " ".join(sorted(self.verbs))


ALL = Verbs({"get", "list", "watch", "create", "patch", "delete"})
READ_ONLY = Verbs({"get", "list", "watch"})


def call(api: Api, *, rights: Verbs = ALL, owner: str = "ann", **fields: Mapping[str, str]) -> Call:
    """`fields`: the variables of the path, and the query."""
    client = AsyncClient(api=api, namespace=NS, owner=owner)  # type: ignore[arg-type]
    caches: Any = ObjectCaches(api, {})  # type: ignore[arg-type]
    site = Site(caches, NS, "hearth", lambda: NOW, _RENDERER)
    return Call(site, Viewer("ann", api, client, rights, owner), NOW, **fields)


def render(page: Page, data: Mapping[str, Any]) -> str:
    return _RENDERER.content(page.name, data)


async def shown(page: Page, asked: Call) -> str:
    """Returns the HTML of the page's content."""
    return render(page, await page.gather(asked))


def text(html: str) -> str:
    """Returns the text of HTML on one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<wbr>", "", html))).strip()


async def preview(api: Api, form: dict[str, str]) -> tuple[int, str]:
    """Returns the status and the page that a form to submit is answered with; nothing is written."""
    answer = await submit.act(call(api), form)
    assert isinstance(answer, ShownPage) and not api.writes
    return answer.status, render(answer.page, answer.data)
