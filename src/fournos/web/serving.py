"""The page in a cluster as tasks of the process: its server and its certificate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.runtime.certificates import ServingCertificate, serving_tasks
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.process import keep_objects
from fournos.engine.runtime.webhook.registration import Service
from fournos.insight.caches import ObjectCaches
from fournos.web.pages.all_pages import ACTIONS, DOWNLOADS, PAGES, WATCHED
from fournos.web.people import Members, TrustedProxy
from fournos.web.rights import Questions
from fournos.web.server import WebServer
from fournos.web.settings import WebSettings
from fournos.web.site import Site

log = logging.getLogger(__name__)

SERVICE: Final = "fournos-web"
"""The Service of the page, whose names are in its certificate."""
CERTIFICATE: Final = "fournos-web-cert"
"""The Secret of that certificate."""
CLOSING: Final = 2.0
"""Seconds that open requests have at the end."""


def tasks(api: Client, settings: WebSettings, clock: Clock) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Returns the tasks by name."""
    return serving_tasks(
        "web",
        partial(_serve, api, settings, clock),
        api,
        Key(settings.namespace, CERTIFICATE),
        hosts=Service(settings.namespace, SERVICE).hosts,
        clock=clock,
    )


def watched(settings: WebSettings) -> dict[Resource, str]:
    """Returns the namespace in which each kind is watched; "" for all."""
    found = {kind: settings.jobs_namespace if kind.namespaced else "" for kind in WATCHED}
    return {**found, FOURNOS_CLUSTER: settings.clusters_namespace}


async def _serve(
    api: Client,
    settings: WebSettings,
    clock: Clock,
    certificate: ServingCertificate,
) -> None:
    """Serves until cancelled, once the objects are read and there is a certificate."""
    tls = await certificate.context()
    async with ObjectCaches(api, watched(settings)) as caches:
        keep_objects()
        people = Members(
            api,
            caches,
            Questions(WATCHED, caches.namespaces, home=settings.jobs_namespace),
            namespace=settings.jobs_namespace or "default",
            monotonic=clock.monotonic,
            proxy=trusted_proxy(settings),
        )
        site = Site(caches, settings.jobs_namespace, settings.clusters_namespace)
        server = WebServer(
            site,
            people,
            PAGES,
            ACTIONS,
            DOWNLOADS,
            hosts=settings.allowed_hosts,
            https=True,
            monotonic=clock.monotonic,
        )
        serving = listening(server.app(), "", settings.port, closing=CLOSING, tls=tls)
        async with serving as port:
            log.info("the page is served on port %d", port)
            await asyncio.Event().wait()


def trusted_proxy(settings: WebSettings) -> TrustedProxy | None:
    """Returns the proxy that names users; None: there is none."""
    if not settings.proxy_secret_file:
        return None
    return TrustedProxy(Path(settings.proxy_secret_file), settings.proxy_prefix)
