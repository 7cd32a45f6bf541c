"""Whether webhooks are served, and who keeps their configurations."""

from __future__ import annotations

import asyncio

import pytest

from fournos.app.run import WebhookOffer, served
from fournos.engine.kube.resource import SECRET, VALIDATING_WEBHOOKS, Key
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.registration import LABEL, WebhookSettings
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.engine.runtime.webhook.toy import webhook
from tests.world.connection import Connection
from tests.world.server import Server


def lease(api: Connection, namespace: str) -> Lease:
    return Lease(api, Key(namespace, "part"), "me", SystemClock())


@pytest.mark.parametrize(
    ("settings", "webhooks", "expected"),
    [
        ({}, (webhook(),), False),
        ({"service": "hooks"}, (), False),
        ({"service": "hooks"}, (webhook(),), True),
        ({"url": "https://192.0.2.7:9443"}, (webhook(),), True),
    ],
)
async def test_it_takes_a_webhook_and_a_way_to_it(
    settings: dict[str, str], webhooks: tuple[object, ...], expected: bool
) -> None:
    api = Connection(Server())
    offers = [WebhookOffer((), "one", lease(api, "one")), WebhookOffer(webhooks, "two", lease(api, "two"))]  # type: ignore[arg-type]
    found = served(
        api,
        offers,
        WebhookSettings(**settings),
        clock=SystemClock(),
        metrics=Metrics(),  # type: ignore[arg-type]
    )
    assert bool(found.background) is expected
    assert bool(list(found.problems())) is expected


@pytest.mark.looptime
async def test_the_first_part_that_has_webhooks_leads_and_owns_the_configurations_of_all() -> None:
    server = Server()
    api, clock = Connection(server), LoopClock()
    leases = [Lease(api, Key(name, "part"), "me", clock) for name in ("one", "two", "three")]
    hooks = [(), (webhook(),), (webhook(name="b.fournos.dev", path="/b", configuration="fournos-b"),)]
    offers = [WebhookOffer(found, one.key.namespace, one) for found, one in zip(hooks, leases, strict=True)]
    settings = WebhookSettings(service="hooks")
    found = served(api, offers, settings, clock=clock, metrics=Metrics())
    task = asyncio.create_task(found.background["webhook-certificates"]())  # type: ignore[arg-type]
    await leases[0].acquire()
    await asyncio.sleep(5)
    assert server.list(VALIDATING_WEBHOOKS) == []
    await leases[1].acquire()
    await asyncio.sleep(5)
    made = server.list(VALIDATING_WEBHOOKS)
    assert [one["metadata"]["name"] for one in made] == ["fournos-b", "fournos-toys"]
    assert {one["metadata"]["labels"][LABEL] for one in made} == {"two"}
    assert server.get(SECRET, Key("two", settings.secret))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
