"""What each setting of the page decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.runtime.clock import SystemClock
from fournos.web.identity.impersonated import Mapped
from fournos.web.serving import tasks, watched, ways
from fournos.web.settings import WebSettings
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.web.stage import stage
from tests.world.connection import Connection
from tests.world.server import Server

OIDC = {
    "FOURNOS_WEB_OIDC_ISSUER": "https://login.example.com/realm/",
    "FOURNOS_WEB_OIDC_CLIENT_ID": "fournos",
    "FOURNOS_WEB_PUBLIC_URL": "https://fournos.example.com/",
}


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
async def test_the_secrets_of_certificate_and_sessions(given: Any) -> None:
    settings = given(
        FOURNOS_WEB_NAMESPACE="mine",
        FOURNOS_WEB_CERTIFICATE_SECRET="cert",
        FOURNOS_WEB_SESSION_SECRET="session",
        FOURNOS_WEB_SERVICE="page",
        FOURNOS_WEB_PORT="9443",
    )
    assert (settings.namespace, settings.certificate_secret, settings.session_secret) == (
        "mine",
        "cert",
        "session",
    )
    assert settings.service == "page" and settings.hosts[0] == "page.mine.svc"
    assert settings.port == 9443
    server = Server()
    api: Any = Connection(server)
    found = tasks(api, settings, LoopClock())
    running = [asyncio.create_task(found[name]()) for name in ("web-certificate", "web-session-keys")]
    await asyncio.sleep(5)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert "tls.crt" in server.get(SECRET, Key("mine", "cert"))["data"]
    (key,) = server.get(SECRET, Key("mine", "session"))["data"]
    assert key.startswith("key-")


def test_how_people_log_in(given: Any) -> None:
    settings = given(
        **OIDC,
        FOURNOS_WEB_SESSION_HOURS="1.5",
        FOURNOS_WEB_PROXIES="2",
        FOURNOS_WEB_TOKEN_LOGIN="false",
        FOURNOS_WEB_PROXY_HEADER="X-Token",
        FOURNOS_WEB_OIDC_NAME="Acme",
        FOURNOS_WEB_IMPERSONATE="true",
    )
    found = ways(settings, SystemClock())
    assert (found.hours, settings.session_hours) == (1.5, 1.5)
    assert (found.proxies, settings.proxies) == (2, 2)
    assert (found.by_token, settings.token_login) == (False, False)
    assert (found.proxy_header, settings.proxy_header) == ("X-Token", "X-Token")
    assert (found.provider_name, settings.oidc_name) == ("Acme", "Acme")
    assert found.provider is not None and settings.oidc_issuer
    assert found.impersonation == Mapped() and settings.impersonate


def test_who_is_impersonated(given: Any) -> None:
    names = ("oidc_user_claim", "oidc_user_prefix", "oidc_groups_claim", "oidc_groups_prefix")
    values = {f"FOURNOS_WEB_{name.upper()}": f"my-{name}" for name in names}
    found = ways(given(**OIDC, FOURNOS_WEB_IMPERSONATE="true", **values), SystemClock())
    assert found.impersonation == Mapped(*(f"my-{name}" for name in names))
    claims = {"my-oidc_user_claim": "ann", "my-oidc_groups_claim": ["team"]}
    user = found.impersonation.user(claims)
    assert (user.name, user.groups) == ("my-oidc_user_prefixann", ("my-oidc_groups_prefixteam",))


def test_how_the_page_is_registered_at_the_provider(given: Any, tmp_path: Any) -> None:
    plain: Any = ways(given(**OIDC), SystemClock()).provider
    assert plain._at.discovery == "https://login.example.com/realm/.well-known/openid-configuration"
    assert plain._at.redirect == "https://fournos.example.com/login/provider/done"
    assert (plain._at.client_secret(), plain._at.bearer) == ("", "id")
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    settings = given(
        FOURNOS_WEB_OIDC_DISCOVERY="https://api.example.com/.well-known/oauth-authorization-server",
        FOURNOS_WEB_OIDC_CLIENT_SECRET_FILE=str(secret),
        FOURNOS_WEB_OIDC_SCOPES="user:full",
        FOURNOS_WEB_OIDC_BEARER="access",
    )
    found: Any = ways(settings, SystemClock()).provider
    assert found._at.discovery == settings.oidc_discovery
    assert found._at.client_secret() == "s3cret" and settings.oidc_client_secret_file
    assert (found._at.scopes, settings.oidc_scopes) == ("user:full", "user:full")
    assert (found._at.bearer, settings.oidc_bearer) == ("access", "access")
    assert (found._at.client_id, settings.oidc_client_id) == ("fournos", "fournos")


def test_a_certificate_authority_of_the_provider_must_be_there(given: Any, tmp_path: Any) -> None:
    settings = given(**OIDC, FOURNOS_WEB_OIDC_CA_FILE=str(tmp_path / "none"))
    assert settings.oidc_ca_file
    with pytest.raises(FileNotFoundError):
        ways(settings, SystemClock())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"FOURNOS_WEB_PUBLIC_URL": "http://a.example.com"}, "not an address of https"),
        ({"FOURNOS_WEB_PUBLIC_URL": "https://a.example.com/b"}, "without a path"),
        ({"FOURNOS_WEB_OIDC_ISSUER": "http://login.example.com"}, "not an address of https"),
        ({"FOURNOS_WEB_OIDC_ISSUER": "https://login.example.com"}, "needs FOURNOS_WEB_OIDC_CLIENT_ID"),
        ({"FOURNOS_WEB_IMPERSONATE": "true"}, "needs a provider with ID tokens"),
        ({**OIDC, "FOURNOS_WEB_OIDC_BEARER": "access", "FOURNOS_WEB_IMPERSONATE": "1"}, "ID tokens"),
        ({"FOURNOS_WEB_TOKEN_LOGIN": "false"}, "no way to log in is left"),
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
