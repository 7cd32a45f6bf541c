"""The page over objects that a test chooses: an API server in memory, beside it a history with its database.

It shows what no real cluster can be made to show quickly, or at all: weeks of results, and names and texts
that an API server would not take.  The clock of the server stands still.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestServer
from playwright.sync_api import Browser

from fournos.client.asynchronous import AsyncClient
from fournos.client.history import AsyncHistory
from fournos.engine.api.values import format_time
from fournos.engine.kube.api import Listing
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.resource import TOKEN_REVIEW, Obj, Resource
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import open_blobs
from fournos.history.store import HistoryStore
from fournos.insight.caches import ObjectCaches
from fournos.web.local import Loopback
from fournos.web.pages.all_pages import ACTIONS, DOWNLOADS, PAGES, WATCHED
from fournos.web.server import WebServer
from fournos.web.site import Site, Viewer
from tests.e2e.web.served import Served
from tests.store.served import served
from tests.unit.client.world import Api
from tests.unit.history.api.service import Reviews
from tests.unit.web.page import AllRights
from tests.waiting import LIMIT
from tests.world.server import Server, VirtualClock

NOW = datetime(2026, 3, 31, 14, 20, tzinfo=UTC)
NS = "perf"
CLUSTERS = "hearth"


def ago(**length: float) -> str:
    return format_time(NOW - timedelta(**length))


class Everyone(Reviews):
    """Allows everything to one person."""

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        if resource == TOKEN_REVIEW:
            return {"status": {"authenticated": True, "user": {"username": "ann"}}}
        return {"status": {"allowed": True}}


class Objects(Server):
    """An API server's objects, with whatever name and time a test gives them."""

    def put(self, resource: Resource, obj: Obj) -> Obj:
        meta = {"uid": f"uid-{self.version}", "creationTimestamp": ago(hours=1), **obj["metadata"]}
        return self._store("ADDED", resource, {**obj, "metadata": meta})


class Connected(Api):
    """The API server in memory; what is asked below /apis/history.fournos.dev goes to the history."""

    def __init__(self, objects: Objects, history: Client) -> None:
        super().__init__(objects)
        self._history = history

    async def raw(self, *given: Any, **options: Any) -> bytes:
        return await self._history.raw(*given, **options)

    async def raw_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        return await self._history.raw_stream(path)

    async def list(self, resource: Resource, **options: Any) -> Listing:
        return await super().list(resource, **{key: value for key, value in options.items() if value})


@dataclass
class Stage:
    """What a scene is made of."""

    objects: Objects
    store: HistoryStore
    history: AsyncHistory


Scene = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Staged:
    """A running server."""

    base: str
    login: str
    objects: Objects
    loop: asyncio.AbstractEventLoop

    def served(self, browser: Browser) -> Served:
        """Logs in."""
        context = browser.new_context()
        context.request.get(self.login)
        state = context.storage_state()
        context.close()
        return Served(self.base, state)


@contextmanager
def staged(scene: Scene, folder: Path, **options: Any) -> Iterator[Staged]:
    """Serves a scene from a thread; `options` are those of the server."""
    started: dict[str, Any] = {}
    ready = threading.Event()

    def run() -> None:
        try:
            asyncio.run(_serve(scene, folder, options, started, ready))
        except BaseException as error:
            started["error"] = error
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(LIMIT), "the stage does not begin"
        if "error" in started:
            raise started["error"]
        yield started["staged"]
    finally:
        if "staged" in started:
            started["staged"].loop.call_soon_threadsafe(started["end"].set)
        thread.join(LIMIT)
    if "error" in started:
        raise started["error"]


async def _serve(
    scene: Scene, folder: Path, options: dict[str, Any], started: dict[str, Any], ready: threading.Event
) -> None:
    clock: Any = VirtualClock(NOW)
    objects = Objects(clock)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await HistoryStore.open(f"sqlite:///{folder / 'history.db'}"))
        blobs = open_blobs(str(folder / "blobs"))
        reviews = Everyone(namespaces={NS: f"uid-{NS}"})
        client = await stack.enter_async_context(served(store, blobs, reviews, ArtifactLimits(), clock=clock))
        credentials = Credentials(str(client.make_url("")).rstrip("/"), FixedIdentity(Proof(token="t-ann")))
        connection = await stack.enter_async_context(Client(credentials))
        await scene(Stage(objects, store, AsyncHistory(connection, NS)))
        api: Any = Connected(objects, connection)
        caches = await stack.enter_async_context(ObjectCaches(api, dict.fromkeys(WATCHED, "")))
        viewer = Viewer("ann", caches, AsyncClient(api=api, namespace=NS, owner="ann"), AllRights(), "ann")
        site = Site(caches, NS, CLUSTERS, lambda: NOW)
        people = Loopback(viewer)
        app = WebServer(site, people, PAGES, ACTIONS, DOWNLOADS, **options).app()
        server = await stack.enter_async_context(TestServer(app))
        base = str(server.make_url("")).rstrip("/")
        end = asyncio.Event()
        started["end"] = end
        started["staged"] = Staged(base, f"{base}/open/{people.token}", objects, asyncio.get_running_loop())
        ready.set()
        await end.wait()
