"""Each variable of the webhooks has its effect on the server or on the registered configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from fournos.app.run import Served, WebhookOffer, served
from fournos.engine.kube.auth import client_context
from fournos.engine.kube.resource import SECRET, VALIDATING_WEBHOOKS, Key, Obj, key_of
from fournos.engine.runtime.certificates import read
from fournos.engine.runtime.clock import Clock, SystemClock
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.registration import WebhookSettings
from fournos.engine.runtime.webhook.server import WebhookServer
from tests.fakes.pki import Authority
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.engine.runtime.webhook.toy import webhook
from tests.waiting import free_port, until
from tests.world.connection import Connection
from tests.world.server import Server

PREFIX = "FOURNOS_WEBHOOK_"
PATH = webhook().path


@asynccontextmanager
async def running(clock: Clock, *tasks: str, url: str = "") -> AsyncIterator[tuple[Server, Served]]:
    """These tasks, by the settings of the environment; it leads."""
    server = Server()
    api = Connection(server)
    lease = Lease(api, Key("ns", "part"), "me", clock)
    offers = [WebhookOffer((webhook(),), "ns", lease)]
    found = served(api, offers, WebhookSettings(), url=url, clock=clock, metrics=Metrics())
    going = [asyncio.ensure_future(found.background[name]()) for name in tasks]
    await lease.acquire()
    try:
        yield server, found
    finally:
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("url", "config", "secret"),
    [
        ("", {"service": {"namespace": "ns", "name": "doors", "path": PATH, "port": 443}}, "doors-cert"),
        ("https://192.0.2.9:7443", {"url": f"https://192.0.2.9:7443{PATH}"}, "fournos-webhooks-cert"),
    ],
)
async def test_the_way_to_it_and_the_secret(
    monkeypatch: pytest.MonkeyPatch, url: str, config: Obj, secret: str
) -> None:
    monkeypatch.setenv(f"{PREFIX}SERVICE", "doors")
    async with running(LoopClock(), "webhook-certificates", url=url) as (server, _):
        await asyncio.sleep(5)
        (configuration,) = server.list(VALIDATING_WEBHOOKS)
        (entry,) = configuration["webhooks"]
        assert entry["clientConfig"].items() > config.items()
        assert [key_of(one) for one in server.list(SECRET)] == [Key("ns", secret)]


@pytest.mark.parametrize("url", ["http://192.0.2.7", "192.0.2.7:9443"])
def test_an_address_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        WebhookSettings().target("ns", url)


def test_without_a_service_and_an_address_none_are_served() -> None:
    assert WebhookSettings().target("ns") is None


async def test_its_accepted_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To those with a certificate of client_authorities alone."""
    port, ours = free_port(), Authority("api-server")
    url = f"https://127.0.0.2:{port}"
    file = tmp_path / "ca.pem"
    file.write_bytes(ours.certificate)
    monkeypatch.setenv(f"{PREFIX}CLIENT_AUTHORITIES", str(file))
    monkeypatch.setitem(WebhookServer.__init__.__kwdefaults__, "linger", 0)
    async with running(SystemClock(), "webhooks", "webhook-certificates", url=url) as (server, found):
        await until(lambda: not list(found.problems()), "webhooks are not served", limit=60, pause=0.01)
        kept = read(server.list(SECRET)[0]["data"])
        for authority, taken in ((ours, True), (Authority("other"), False), (None, False)):
            own = authority.issue("client") if authority is not None else None
            context = client_context(
                ca=kept.bundle,
                certificate=own.certificate if own else None,
                key=own.key if own else None,
            )
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
                if taken:
                    async with session.get(url) as answer:
                        assert answer.status == 404
                else:
                    with pytest.raises((aiohttp.ClientError, OSError)):
                        await session.get(url)
