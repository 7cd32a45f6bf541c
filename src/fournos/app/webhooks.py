"""The admission webhooks of the enabled parts, as tasks of the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.registration import Registrar, WebhookSettings
from fournos.engine.runtime.webhook.review import Webhook
from fournos.engine.runtime.webhook.server import WebhookServer


@dataclass(frozen=True, slots=True)
class WebhookOffer:
    """The webhooks of one part, the namespace of its operator, and its lease."""

    webhooks: Sequence[Webhook]
    namespace: str
    lease: Lease


@dataclass(frozen=True, slots=True)
class Served:
    """The tasks and readiness problems that webhooks add to the process; empty if none are served."""

    background: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    problems: Callable[[], Iterable[str]] = tuple


def served(
    api: Api, offers: Iterable[WebhookOffer], settings: WebhookSettings, *, clock: Clock, metrics: Metrics
) -> Served:
    """Returns the webhook server and the certificate rotation of all parts.

    `api` must not be guarded by a lease, because every replica answers.  All webhooks share one port, one
    certificate and one writer of the configurations: the leader of the first part that has webhooks.
    """
    offered = [offer for offer in offers if offer.webhooks]
    target = settings.target(offered[0].namespace) if offered else None
    if target is None:
        return Served()
    webhooks = [webhook for offer in offered for webhook in offer.webhooks]
    server = WebhookServer(api, webhooks, metrics=metrics, clients=settings.client_authorities)
    registrar = Registrar(
        api,
        webhooks,
        target,
        secret=Key(offered[0].namespace, settings.secret),
        clock=clock,
        metrics=metrics,
        leading=offered[0].lease.leading,
        show=server.show,
    )
    return Served(
        background={
            "webhooks": partial(server.run, port=settings.port, host=settings.host),
            "webhook-certificates": registrar.run,
        },
        problems=lambda: [*server.problems(), *registrar.problems()],
    )
