"""The API over a real store, with an API server that only reviews."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from fournos.engine.runtime.clock import Clock, SystemClock
from fournos.history.api.identity import HistoryAuthorizer
from fournos.history.api.server import HistoryServer
from fournos.history.api.service import ROUTES, HistoryService
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import Blobs
from fournos.history.store import HistoryStore
from tests.unit.history.api.service import Reviews, Tokens


@asynccontextmanager
async def served(
    store: HistoryStore,
    blobs: Blobs,
    reviews: Reviews,
    limits: ArtifactLimits,
    *,
    clock: Clock | None = None,
) -> AsyncIterator[TestClient[Any, Any]]:
    """A client of the API; the cluster of its runs is `here`."""

    async def reading() -> HistoryStore:
        return store

    service = HistoryService(
        reading,
        blobs,
        cluster="here",
        clock=clock or SystemClock(),
        limits=limits,
    )
    api: Any = reviews
    server = HistoryServer(
        ROUTES,
        service,
        api,
        Tokens(),
        HistoryAuthorizer(api, service.store, cluster=service.cluster, monotonic=lambda: 0.0),
    )
    async with TestClient(TestServer(server.app())) as client:
        yield client
