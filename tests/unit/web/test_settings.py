"""What each setting of the page decides."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.runtime.part import UnsupportedError
from fournos.web.part import verify
from fournos.web.people import TrustedProxy
from fournos.web.serving import tasks, trusted_proxy, watched
from fournos.web.settings import WebSettings
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.web.stage import stage
from tests.world.connection import Connection
from tests.world.server import Server


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(**values: str) -> WebSettings:
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        return WebSettings()

    return give


def test_the_namespaces_that_are_watched(given: Any) -> None:
    assert set(watched(WebSettings()).values()) == {"", "hearth"}
    settings = given(FOURNOS_WEB_JOBS_NAMESPACE="perf", FOURNOS_WEB_CLUSTERS_NAMESPACE="fleet")
    assert (settings.jobs_namespace, settings.clusters_namespace) == ("perf", "fleet")
    found = watched(settings)
    assert found.pop(FOURNOS_CLUSTER) == "fleet"
    assert {kind.namespaced: namespace for kind, namespace in found.items()} == {True: "perf", False: ""}


@pytest.mark.looptime
async def test_the_secret_of_the_certificate(given: Any) -> None:
    settings = given(
        FOURNOS_WEB_NAMESPACE="mine",
        FOURNOS_WEB_PORT="9443",
    )
    assert settings.namespace == "mine"
    assert settings.port == 9443
    server = Server()
    api: Any = Connection(server)
    running = asyncio.create_task(tasks(api, settings, LoopClock())["web-certificate"]())
    await asyncio.sleep(5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert "tls.crt" in server.get(SECRET, Key("mine", "fournos-web-cert"))["data"]


async def test_a_proxy_that_names_users_needs_a_secret(given: Any, tmp_path: Path) -> None:
    assert trusted_proxy(WebSettings()) is None
    secret = tmp_path / "secret"
    settings = given(FOURNOS_WEB_PROXY_SECRET_FILE=str(secret), FOURNOS_WEB_PROXY_PREFIX="acme:")
    assert trusted_proxy(settings) == TrustedProxy(secret, "acme:")
    assert (settings.proxy_secret_file, settings.proxy_prefix) == (str(secret), "acme:")
    api: Any = None
    with pytest.raises(UnsupportedError, match=r"FOURNOS_WEB_PROXY_SECRET_FILE: .* cannot be read"):
        await verify(settings, api)
    secret.write_text("too short\n")
    with pytest.raises(UnsupportedError, match="is shorter than 16 bytes"):
        await verify(settings, api)
    secret.write_text("0123456789abcdef:\n")
    with pytest.raises(UnsupportedError, match="has a colon"):
        await verify(settings, api)
    secret.write_text("0123456789abcdef\n")
    assert await verify(settings, api) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"FOURNOS_WEB_PUBLIC_URL": "http://a.example.com"}, "not an address of https"),
        ({"FOURNOS_WEB_PUBLIC_URL": "https://a.example.com/b"}, "without a path"),
    ],
)
def test_what_cannot_work_is_refused_at_start(values: dict[str, str], message: str, given: Any) -> None:
    with pytest.raises(ValidationError, match=message):
        given(**values)


async def test_public_url_names_the_host_that_is_answered(given: Any) -> None:
    assert WebSettings().allowed_hosts == frozenset()
    settings = given(FOURNOS_WEB_PUBLIC_URL="https://Fournos.example.com:443")
    assert settings.public_url == "https://Fournos.example.com"
    assert settings.allowed_hosts == {"fournos.example.com"}
    async with stage(hosts=settings.allowed_hosts) as site:
        for host, status in (
            ("fournos.example.com", 401),
            ("FOURNOS.example.com:443", 401),
            ("evil.example.com", 421),
            ("fournos.example.com.evil.org", 421),
            ("fournos.example.com:444", 421),
            ("127.0.0.1", 421),
        ):
            assert (await site.get("/", headers={"Host": host}))[0] == status, host
