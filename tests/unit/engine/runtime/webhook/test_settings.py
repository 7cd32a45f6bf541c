"""Each variable of the webhooks has its effect on the server or on the registered configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fournos.app.run import Served, WebhookOffer, served
from fournos.engine.kube.auth import client_context
from fournos.engine.kube.resource import SECRET, VALIDATING_WEBHOOKS, Key, key_of
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


@asynccontextmanager
async def running(clock: Clock, *tasks: str) -> AsyncIterator[tuple[Server, Served]]:
    """These tasks, by the settings of the environment; it leads."""
    server = Server()
    api = Connection(server)
    lease = Lease(api, Key("ns", "part"), "me", clock)
    offers = [WebhookOffer((webhook(),), "ns", lease)]
    found = served(api, offers, WebhookSettings(), clock=clock, metrics=Metrics())
    going = [asyncio.ensure_future(found.background[name]()) for name in tasks]
    await lease.acquire()
    try:
        yield server, found
    finally:
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)


def client_config(server: Server) -> Any:
    (configuration,) = server.list(VALIDATING_WEBHOOKS)
    (one,) = configuration["webhooks"]
    return one["clientConfig"]


@pytest.mark.looptime
async def test_the_service_and_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}SERVICE", "doors")
    monkeypatch.setenv(f"{PREFIX}SECRET", "doors-cert")
    async with running(LoopClock(), "webhook-certificates") as (server, _):
        await asyncio.sleep(5)
        found = client_config(server)["service"]
        assert (found["namespace"], found["name"]) == ("ns", "doors")
        assert [key_of(one) for one in server.list(SECRET)] == [Key("ns", "doors-cert")]


@pytest.mark.looptime
async def test_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}URL", "https://192.0.2.9:7443")
    async with running(LoopClock(), "webhook-certificates") as (server, _):
        await asyncio.sleep(5)
        assert client_config(server)["url"].startswith("https://192.0.2.9:7443/")


@pytest.mark.parametrize(
    "variables",
    [
        {"URL": "http://192.0.2.7"},
        {"URL": "192.0.2.7:9443"},
        {"URL": "https://192.0.2.7", "SERVICE": "hooks"},
    ],
)
def test_settings_that_cannot_work_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"{PREFIX}{name}", value)
    with pytest.raises(ValueError, match=r"(?i)address|service"):
        WebhookSettings()


def test_without_a_service_and_an_address_none_are_served() -> None:
    assert WebhookSettings().target("ns") is None


async def test_its_address_and_its_accepted_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this port of this host alone, to those with a certificate of client_authorities alone."""
    host, port, ours = "127.0.0.2", free_port(), Authority("api-server")
    file = tmp_path / "ca.pem"
    file.write_bytes(ours.certificate)
    monkeypatch.setenv(f"{PREFIX}URL", f"https://{host}:{port}")
    monkeypatch.setenv(f"{PREFIX}HOST", host)
    monkeypatch.setenv(f"{PREFIX}PORT", str(port))
    monkeypatch.setenv(f"{PREFIX}CLIENT_AUTHORITIES", str(file))
    monkeypatch.setitem(WebhookServer.__init__.__kwdefaults__, "linger", 0)
    async with running(SystemClock(), "webhooks", "webhook-certificates") as (server, found):
        await until(lambda: not list(found.problems()), "webhooks are not served", limit=60, pause=0.01)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
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
                    async with session.get(f"https://{host}:{port}/") as answer:
                        assert answer.status == 404
                else:
                    with pytest.raises((aiohttp.ClientError, OSError)):
                        await session.get(f"https://{host}:{port}/")
