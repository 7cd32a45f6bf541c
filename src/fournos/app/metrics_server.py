"""The https server of /metrics, as tasks of the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.cert_rotator import CertRotator
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_server.authorizer import Authorizer
from fournos.engine.runtime.metrics_server.server import MetricsServer
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from fournos.engine.runtime.metrics_table import METRICS_CERTIFICATE_END_SECONDS
from fournos.engine.runtime.webhook.certificates import Pair


def metrics_tasks(
    api: Api,
    settings: MetricsSettings,
    *,
    namespace: str,
    clock: Clock,
    metrics: Metrics,
    refresh: Callable[[], None],
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Returns the tasks of the metrics server, by name; none if its port is 0.

    `api` must not be guarded by a lease, because every replica is scraped.
    """
    if not settings.port:
        return {}
    authorizer = Authorizer(api, monotonic=clock.monotonic, lifetime=settings.kept_for)
    server = MetricsServer(authorizer, metrics, refresh=refresh)

    def show(pair: Pair) -> None:
        server.certificate.show(pair)
        metrics.set(METRICS_CERTIFICATE_END_SECONDS, pair.ends.timestamp())

    rotator = CertRotator(
        api,
        Key(namespace, settings.secret),
        hosts=settings.hosts(namespace),
        clock=clock,
        name="metrics",
        show=show,
    )
    return {
        "metrics": partial(server.run, port=settings.port, host=settings.host),
        "metrics-certificate": rotator.run,
    }
