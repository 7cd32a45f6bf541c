"""The page in a cluster as tasks of the process: its server, its certificate, the key of its sessions."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.runtime.certificates import CertRotator, ServingCertificate
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.memory import keep_objects
from fournos.insight.caches import ObjectCaches
from fournos.web.assets import Assets
from fournos.web.identity.impersonated import Mapped
from fournos.web.identity.members import CALLBACK, Members, Ways
from fournos.web.identity.rights import Questions
from fournos.web.identity.session_keys import SessionKeys
from fournos.web.pages.all_pages import ACTIONS, DOWNLOADS, PAGES, WATCHED
from fournos.web.render import Renderer
from fournos.web.server import WebServer
from fournos.web.settings import WebSettings
from fournos.web.site import Site

if TYPE_CHECKING:
    from fournos.web.identity.provider import Provider

log = logging.getLogger(__name__)

CLOSING: Final = 2.0
"""Seconds that open requests have at the end."""


def tasks(api: Client, settings: WebSettings, clock: Clock) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Returns the tasks by name."""
    certificate = ServingCertificate()
    keys = SessionKeys(
        api,
        Key(settings.namespace, settings.session_secret),
        lifetime=timedelta(hours=settings.session_hours),
        clock=clock,
    )
    rotator = CertRotator(
        api,
        Key(settings.namespace, settings.certificate_secret),
        hosts=settings.hosts,
        clock=clock,
        name="web",
        show=certificate.show,
    )
    return {
        "web": partial(_serve, api, settings, clock, certificate, keys),
        "web-certificate": rotator.run,
        "web-session-keys": keys.run,
    }


def watched(settings: WebSettings) -> dict[Resource, str]:
    """Returns the namespace in which each kind is watched; "" for all."""
    found = {kind: settings.jobs_namespace if kind.namespaced else "" for kind in WATCHED}
    return {**found, FOURNOS_CLUSTER: settings.clusters_namespace}


async def _serve(
    api: Client,
    settings: WebSettings,
    clock: Clock,
    certificate: ServingCertificate,
    keys: SessionKeys,
) -> None:
    """Serves until cancelled, once the objects are read and there is a certificate."""
    tls = await certificate.context()
    async with ObjectCaches(api, watched(settings)) as caches:
        keep_objects()
        people = Members(
            api,
            ways(settings, clock),
            keys,
            caches,
            Questions(WATCHED, caches.namespaces, home=settings.jobs_namespace),
            namespace=settings.jobs_namespace or "default",
            clock=clock,
        )
        assets = Assets()
        site = Site(
            caches,
            lambda: datetime.now(UTC),
            jobs_namespace=settings.jobs_namespace,
            clusters_namespace=settings.clusters_namespace,
            assets=assets,
            renderer=Renderer(assets),
        )
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


def ways(settings: WebSettings, clock: Clock) -> Ways:
    """Returns how people log in."""
    mapped = Mapped(
        settings.oidc_user_claim,
        settings.oidc_user_prefix,
        settings.oidc_groups_claim,
        settings.oidc_groups_prefix,
    )
    return Ways(
        by_token=settings.token_login,
        proxy_header=settings.proxy_header,
        provider=_provider(settings, clock) if settings.oidc_issuer else None,
        provider_name=settings.oidc_name,
        impersonation=mapped if settings.impersonate else None,
        hours=settings.session_hours,
        proxies=settings.proxies,
    )


def _provider(settings: WebSettings, clock: Clock) -> Provider:
    # Imported here: only it needs the packages of the extra `oidc`.
    from fournos.web.identity.provider import Provider, Registration

    issuer = settings.oidc_issuer
    secret = Path(settings.oidc_client_secret_file) if settings.oidc_client_secret_file else None
    tls = ssl.create_default_context()
    if settings.oidc_ca_file:
        tls.load_verify_locations(cafile=settings.oidc_ca_file)
    return Provider(
        Registration(
            issuer=issuer,
            discovery=settings.oidc_discovery or f"{issuer.rstrip('/')}/.well-known/openid-configuration",
            client_id=settings.oidc_client_id,
            client_secret=lambda: secret.read_text(encoding="utf-8").strip() if secret else "",
            redirect=settings.public_url + CALLBACK,
            scopes=settings.oidc_scopes,
            bearer=settings.oidc_bearer,
        ),
        now=lambda: clock.now().timestamp(),
        monotonic=clock.monotonic,
        tls=tls,
    )
