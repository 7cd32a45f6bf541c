"""`fournos web`: the page on this machine, with the caller's own kubeconfig and rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.api import Api
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.memory import collect_seldom, keep_objects
from fournos.insight.caches import ObjectCaches, scopes
from fournos.insight.overview import KINDS as JOB_KINDS
from fournos.web.assets import Assets
from fournos.web.loopback import Loopback, OwnRights
from fournos.web.pages.all_pages import ACTIONS, DOWNLOADS, PAGES, WATCHED
from fournos.web.render import Renderer
from fournos.web.server import WebServer
from fournos.web.site import Site
from fournos.web.viewer import Viewer

HOST: Final = "127.0.0.1"
PORT: Final = 8470


@dataclass(frozen=True, slots=True)
class LocalOptions:
    namespace: str
    clusters_namespace: str = "hearth"
    port: int = PORT
    """0: a free one."""
    path: str = "/"
    owner: str = ""


class Login(Protocol):
    """Makes what admits the person."""

    def __call__(self, viewer: Viewer, *, path: str) -> Loopback: ...


async def serve(
    api: Api, options: LocalOptions, opened: Callable[[str], None], *, login: Login = Loopback
) -> None:
    """Serves until cancelled.  `opened` is called once with the address to open.

    Raises KubeError if the API server does not answer, and OSError if the port is in use.
    """
    wanted = [kind for kind in WATCHED if kind != FOURNOS_CLUSTER]
    kinds = {**await scopes(api, wanted, options.namespace), FOURNOS_CLUSTER: options.clusters_namespace}
    everywhere = all(kinds[kind] == "" for kind in JOB_KINDS if kind.namespaced)
    collect_seldom()
    async with ObjectCaches(api, kinds) as caches:
        keep_objects()
        # A page that waits for the history shows nothing of the rest.
        client = AsyncClient(api=api, namespace=options.namespace, owner=options.owner or None, patience=0)
        viewer = Viewer("you", caches, client, OwnRights(api, SystemClock().monotonic), "own")
        assets = Assets()
        site = Site(
            caches,
            lambda: datetime.now(UTC),
            jobs_namespace="" if everywhere else options.namespace,
            clusters_namespace=options.clusters_namespace,
            assets=assets,
            renderer=Renderer(assets),
        )
        await _run(site, login(viewer, path=options.path), options, opened)


async def _run(site: Site, people: Loopback, options: LocalOptions, opened: Callable[[str], None]) -> None:
    hosts: set[str] = set()
    server = WebServer(site, people, PAGES, ACTIONS, DOWNLOADS, hosts=hosts)
    async with listening(server.app(), HOST, options.port, closing=1.0) as port:
        hosts |= {f"{HOST}:{port}", f"localhost:{port}"}
        opened(f"http://{HOST}:{port}/open/{people.token}")
        await asyncio.Event().wait()
