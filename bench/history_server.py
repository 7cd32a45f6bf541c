"""Serves a history to everybody: `python -m bench.history_server URL NAMESPACE`.  It prints its address."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from aiohttp import web

from bench.history import CLUSTER
from fournos.engine.kube.api import Api, Listing
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.runtime.clock import SystemClock
from fournos.history.api.all_routes import ROUTES
from fournos.history.api.authentication import Authenticator
from fournos.history.api.authorization import HistoryAuthorizer
from fournos.history.api.server import HistoryServer
from fournos.history.api.service import HistoryService
from fournos.history.artifacts.rules import ArtifactLimits
from fournos.history.blobs import DirectoryBlobs
from fournos.history.store import HistoryStore


class Everybody:
    """An API server that knows one person, who may do everything."""

    def __init__(self, namespace: str) -> None:
        self._namespace = {"metadata": {"name": namespace, "uid": f"uid-of-{namespace}"}}

    async def create(self, resource: Resource, obj: Obj, **_: Any) -> Obj:
        return {"status": {"allowed": True, "authenticated": True, "user": {"username": "ann"}}}

    async def list(self, resource: Resource, **_: Any) -> Listing:
        return Listing([self._namespace], "1")


async def _serve(url: str, namespace: str) -> None:
    async with await HistoryStore.open(url) as store:

        async def reading() -> HistoryStore:
            return store

        api = cast(Api, Everybody(namespace))
        with tempfile.TemporaryDirectory() as directory:
            blobs = DirectoryBlobs(Path(directory))
            service = HistoryService(
                reading, blobs, cluster=CLUSTER, clock=SystemClock(), limits=ArtifactLimits()
            )
            server = HistoryServer(
                ROUTES,
                service,
                api,
                Authenticator(api, monotonic=time.monotonic),
                HistoryAuthorizer(api, service.store, cluster=service.cluster, monotonic=time.monotonic),
                version="1",
            )
            runner = web.AppRunner(server.app(), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2]))
