"""The API as a part of the process: its routes, what they work with, its server and its certificate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import NAMESPACE, Key, uid_of
from fournos.engine.kube.transport import Backoff
from fournos.engine.runtime.certificates import ServingCertificate, serving_tasks
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.webhook.registration import Service
from fournos.history.api import (
    comparisons,
    results,
    runs,
    usage,
    verdicts,
)
from fournos.history.api.identity import HistoryAuthorizer, publish, read_front_proxy
from fournos.history.api.routes import Route
from fournos.history.api.server import HistoryServer
from fournos.history.artifacts import ArtifactLimits, Artifacts
from fournos.history.blobs import Blobs
from fournos.history.records import Identity
from fournos.history.settings import HistorySettings
from fournos.history.store import HistoryStore
from fournos.history.store.blobs import ArtifactRows, LogRows
from fournos.history.store.results import Results
from fournos.history.store.retention import erase
from fournos.history.store.verdicts import Verdicts

ROUTES: Final[tuple[Route, ...]] = (
    *runs.ROUTES,
    *results.ROUTES,
    *comparisons.ROUTES,
    *verdicts.ROUTES,
    *usage.ROUTES,
)


class HistoryService:
    """Handed to every handler."""

    def __init__(
        self,
        store: Callable[[], Awaitable[HistoryStore]],
        blobs: Blobs,
        *,
        clock: Clock,
        limits: ArtifactLimits,
        cluster: str = "",
    ) -> None:
        """`store()` returns the open store, or raises StoreUnavailableError.

        `limits`: of the artifacts of one run.

        `cluster`: the identity of the API server in the history; set before the first request.
        """
        self.store = store
        self.artifacts = Artifacts(self.artifact_rows, blobs, limits)
        self.reading = asyncio.Lock()
        """Held while a file of results is read."""
        self.cluster = cluster
        self.blobs = blobs
        self._clock = clock

    async def artifact_rows(self) -> ArtifactRows:
        return ArtifactRows(await self.store())

    async def log_rows(self) -> LogRows:
        return LogRows(await self.store())

    async def results(self) -> Results:
        return Results(await self.store())

    async def verdicts(self) -> Verdicts:
        return Verdicts(await self.store())

    async def delete(self, identity: Identity) -> None:
        """Deletes a run with its documents, logs, artifacts and results."""
        await erase(await self.store(), self.blobs, [identity], self.now())

    def now(self) -> datetime:
        return self._clock.now()


log = logging.getLogger(__name__)

KUBE_SYSTEM: Final = Key("", "kube-system")
SERVICE: Final = "fournos-history"
"""The Service to which the API server forwards, as the APIService names it."""
CERTIFICATE: Final = "fournos-history-cert"
"""The Secret of that Service's certificate."""
_FOLLOWED: Final = 60.0
"""Seconds between two looks at who forwards requests."""


def api_tasks(
    api: Api, settings: HistorySettings, service: HistoryService, clock: Clock
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Returns the tasks by name; none if the port is 0.

    `api` must not be guarded by a lease, because every replica answers.
    """
    if not settings.port:
        return {}
    return serving_tasks(
        "history-api",
        partial(_serve, api, settings, service, clock),
        api,
        Key(settings.namespace, CERTIFICATE),
        hosts=Service(settings.namespace, SERVICE).hosts,
        clock=clock,
        publish=partial(publish, api, namespace=settings.namespace),
    )


async def _serve(
    api: Api,
    settings: HistorySettings,
    service: HistoryService,
    clock: Clock,
    certificate: ServingCertificate,
) -> None:
    """Serves until cancelled, once the API server has answered who it is."""
    backoff = Backoff()
    while True:
        try:
            service.cluster = uid_of(await api.get(NAMESPACE, KUBE_SYSTEM))
            authority, proxy = await read_front_proxy(api)
            # Optional: whoever has no certificate gets an answer that says so.
            certificate.trust(authority, required=False)
            break
        except (KubeError, ValueError) as error:
            log.warning("history: the API waits for the API server: %s", error)
            await asyncio.sleep(backoff.next())
    server = HistoryServer(
        ROUTES,
        service,
        api,
        proxy,
        HistoryAuthorizer(api, service.store, cluster=service.cluster, monotonic=clock.monotonic),
        certificate=certificate,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_follow(api, server))
        await server.run(port=settings.port)


async def _follow(api: Api, server: HistoryServer) -> None:
    """Follows the authority of forwarded requests: OpenShift replaces it about each month."""
    while True:
        await asyncio.sleep(_FOLLOWED)
        try:
            server.trust(*await read_front_proxy(api))
        except (KubeError, ValueError) as error:
            log.warning("history: who forwards requests cannot be read, and stays as it was: %s", error)
