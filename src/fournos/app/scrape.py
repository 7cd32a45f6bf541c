"""/metrics by https, as tasks of the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from fournos.kube.api import Api
from fournos.kube.resource import Key
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.scrape.certificate import CertificateKeeper
from fournos.runtime.scrape.gate import Gate
from fournos.runtime.scrape.server import ScrapeServer
from fournos.runtime.scrape.settings import MetricsSettings


def scraped(
    api: Api,
    settings: MetricsSettings,
    *,
    namespace: str,
    clock: Clock,
    metrics: Metrics,
    refresh: Callable[[], None],
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """`api` must not be fenced by a lease: every replica is scraped."""
    if not settings.port:
        return {}
    gate = Gate(api, monotonic=clock.monotonic, lifetime=settings.kept_for)
    server = ScrapeServer(gate, metrics, refresh=refresh)
    keeper = CertificateKeeper(
        api,
        Key(namespace, settings.secret),
        hosts=settings.hosts(namespace),
        clock=clock,
        metrics=metrics,
        show=server.certificate.show,
    )
    return {
        "metrics": partial(server.run, port=settings.port, host=settings.host or None),
        "metrics-certificate": keeper.run,
    }
