"""The settings of /metrics, and what they come to."""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError

from fournos.app.metrics_server import metrics_tasks
from fournos.engine.kube.kinds import SECRET, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from fournos.engine.runtime.webhook.secret import BUNDLE
from tests.unit.engine.runtime.metrics_server.test_authorizer import Reviewer
from tests.waiting import free_port, until
from tests.world.connection import Connection
from tests.world.server import Server


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [({}, set()), ({"port": 8443}, {"metrics", "metrics-certificate"}), ({"plain": True}, set())],
)
def test_the_https_server_runs_where_it_has_a_port(settings: dict[str, Any], tasks: set[str]) -> None:
    found = metrics_tasks(
        Connection(Server()),
        MetricsSettings(**settings),
        namespace="ns",
        clock=SystemClock(),
        metrics=Metrics(),
        refresh=lambda: None,
    )
    assert set(found) == tasks


def test_the_certificate_is_for_the_service() -> None:
    assert MetricsSettings(service="m").hosts("ns") == ("m.ns.svc", "m.ns.svc.cluster.local")
    assert len(MetricsSettings().hosts("ns")) == 1


@pytest.mark.parametrize("value", ["11m", "-1s", "soon"])
def test_an_answer_is_not_kept_for_long(value: str) -> None:
    with pytest.raises(ValidationError):
        MetricsSettings(review_lifetime=value)
    assert MetricsSettings(review_lifetime="0s").kept_for == 0


# --- what who scrapes sees --------------------------------------------------------------------------------


class Api(Connection):
    """Secrets in memory; reviews by the stand-in."""

    def __init__(self) -> None:
        super().__init__(Server())
        self.reviewer = Reviewer()

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        requested = resource in (TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW)
        return await (self.reviewer.create(resource, obj) if requested else super().create(resource, obj))


class Clock(SystemClock):
    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def test_where_metrics_are_and_how_long_an_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this port of this host alone, with a certificate for the service that is kept in the secret."""
    api, clock, host, port = Api(), Clock(), "127.0.0.2", free_port()
    monkeypatch.setenv("FOURNOS_METRICS_HOST", host)
    monkeypatch.setenv("FOURNOS_METRICS_PORT", str(port))
    monkeypatch.setenv("FOURNOS_METRICS_SERVICE", "gauges")
    monkeypatch.setenv("FOURNOS_METRICS_SECRET", "gauges-cert")
    monkeypatch.setenv("FOURNOS_METRICS_REVIEW_LIFETIME", "7m")
    tasks = metrics_tasks(
        api, MetricsSettings(), namespace="ns", clock=clock, metrics=Metrics(), refresh=lambda: None
    )
    going = [asyncio.ensure_future(task()) for task in tasks.values()]
    await until(lambda: listens(host, port), "metrics are not served", limit=60, pause=0.01)
    assert not await listens("127.0.0.1", port)
    (secret,) = api.server.list(SECRET)
    assert key_of(secret) == Key("ns", "gauges-cert")
    trust = ssl.create_default_context(cadata=base64.b64decode(secret["data"][BUNDLE]).decode())
    requested = []
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer good"}) as session:
        for ahead in (0.0, 6 * 60.0, 8 * 60.0):
            clock.ahead = ahead
            url, name = f"https://{host}:{port}/metrics", "gauges.ns.svc"
            async with session.get(url, ssl=trust, server_hostname=name) as answer:
                assert answer.status == 200
            requested.append(sum(resource == TOKEN_REVIEW for resource, _ in api.reviewer.requests))
    assert requested == [1, 1, 2]
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)


async def listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True
