"""The API as tasks of the process: its server, its certificate, and who forwards requests to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import NAMESPACE, Key, uid_of
from fournos.engine.kube.transport import Backoff
from fournos.engine.runtime.certificates import CertRotator, ServingCertificate
from fournos.engine.runtime.clock import Clock
from fournos.history.api.all_routes import ROUTES
from fournos.history.api.identity import HistoryAuthorizer, publish, read_front_proxy
from fournos.history.api.server import HistoryServer
from fournos.history.api.service import HistoryService
from fournos.history.settings import HistorySettings

log = logging.getLogger(__name__)

KUBE_SYSTEM = Key("", "kube-system")


def api_tasks(
    api: Api, settings: HistorySettings, service: HistoryService, clock: Clock
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Returns the tasks by name; none if the port is 0.

    `api` must not be guarded by a lease, because every replica answers.
    """
    if not settings.port:
        return {}
    certificate = ServingCertificate()
    rotator = CertRotator(
        api,
        Key(settings.namespace, settings.certificate_secret),
        hosts=settings.hosts,
        clock=clock,
        name="history",
        show=certificate.show,
        publish=partial(publish, api, namespace=settings.namespace),
    )
    return {
        "history-api": partial(_serve, api, settings, service, clock, certificate),
        "history-certificate": rotator.run,
    }


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
    await server.run(port=settings.port, authority=authority)
