"""The page behind a real oauth2-proxy, which logs people in at a real OpenID provider."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from yarl import URL

from dev.go_tools import OAUTH2_PROXY, OIDC_PROVIDER, ensure
from devcluster.progress import Progress
from fournos.api.kinds import FOURNOS_JOB
from fournos.web.people import TrustedProxy
from tests.unit.web.stage import ADMIN, NS, Stage, stage
from tests.waiting import free_port, until

SECRET = "a secret of the proxy and the page"
USERS = {
    name: {
        "ID": name,
        "Username": name,
        "Password": f"{name}-password",
        "FirstName": name,
        "LastName": "team",
        "Email": f"{name}@example.com",
        "EmailVerified": True,
        "PreferredLanguage": "en",
    }
    for name in ("ann", "ben")
}
GROUPS_CLAIM = "family_name"
"""The provider has no groups; this claim is one that the file of users sets."""


@dataclass
class Login:
    """The page behind the proxy."""

    site: Stage
    proxy: URL

    @asynccontextmanager
    async def person(self, name: str) -> AsyncIterator[aiohttp.ClientSession]:
        """A browser in which somebody has logged in."""
        async with aiohttp.ClientSession(self.proxy) as browser:
            async with browser.get("/names") as answer:
                form = await answer.text()
            request = re.search(r'name="id" value="([^"]*)"', form)
            assert request, form
            given = {"username": name, "password": f"{name}-password", "id": request[1]}
            async with browser.post(answer.url.origin().join(URL("/login/username")), data=given) as answer:
                assert (answer.status, answer.url.path) == (200, "/names"), await answer.text()
            yield browser


@contextmanager
def running(words: list[str | Path], log: Path, **environment: str) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment}
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


async def answers(url: URL) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def behind(site: Stage, folder: Path, *options: str, **environment: str) -> AsyncIterator[Login]:
    """Starts provider and proxy; `options` are the proxy's."""
    issuer, proxy = URL(f"http://localhost:{free_port()}/"), URL(f"http://localhost:{free_port()}/")
    (folder / "users.json").write_text(json.dumps(USERS))
    words = [
        ensure(OAUTH2_PROXY, Progress()),
        "--provider=oidc",
        f"--oidc-issuer-url={issuer}",
        "--client-id=web",
        "--client-secret=secret",
        f"--redirect-url={proxy / 'oauth2/callback'}",
        "--scope=openid profile email",
        "--email-domain=*",
        f"--oidc-groups-claim={GROUPS_CLAIM}",
        f"--cookie-secret={secrets.token_hex(16)}",
        "--cookie-secure=false",
        "--skip-provider-button",
        f"--http-address=127.0.0.1:{proxy.port}",
        f"--upstream={site.client.make_url('/')}",
        *options,
    ]
    provider = {
        "PORT": str(issuer.port),
        "REDIRECT_URI": str(proxy / "oauth2/callback"),
        "USERS_FILE": str(folder / "users.json"),
    }
    with ExitStack() as stack:
        stack.enter_context(running([ensure(OIDC_PROVIDER, Progress())], folder / "provider.log", **provider))
        await until(lambda: answers(issuer / ".well-known/openid-configuration"))
        stack.enter_context(running(words, folder / "proxy.log", **environment))
        await until(lambda: answers(proxy / "ping"), report=(folder / "proxy.log").read_text)
        yield Login(site, proxy)


class Tokens(dict[str, str]):
    """Who an ID token of the provider is of, as an API server with its issuer configured says."""

    def get(self, token: str, default: object = None) -> str | None:  # type: ignore[override]
        payload = token.split(".")[1]
        return str(json.loads(base64.urlsafe_b64decode(payload + "=="))["sub"])


async def text(browser: aiohttp.ClientSession, path: str, **headers: str) -> str:
    async with browser.get(path, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


async def test_people_see_what_their_tokens_allow_and_forms_of_other_sites_do_nothing(tmp_path: Path) -> None:
    async with stage() as site, behind(site, tmp_path, "--pass-authorization-header") as login:
        site.cluster.users = Tokens()
        site.may("ann", *ADMIN)
        site.may("ben", ("list", "fournosjobs", "other"))
        site.job("of-ann", NS)
        site.job("of-ben", "other")
        async with login.person("ann") as ann, login.person("ben") as ben:
            await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
            seen = await text(ann, "/names")
            assert ">ann</span>" in seen and "of-ann" in seen and "of-ben" in seen
            seen = await text(ben, "/names")
            assert ">ben</span>" in seen and "of-ann" not in seen and "of-ben" in seen
            assert len(site.cluster.bearers) == 2 and site.cluster.impersonated == []

            origins: list[tuple[dict[str, str], int]] = [
                ({"Sec-Fetch-Site": "cross-site"}, 403),
                ({"Origin": "https://evil.example"}, 403),
                ({}, 403),
                ({"Sec-Fetch-Site": "same-origin"}, 303),
            ]
            for headers, status in origins:
                form = {"data": {"a": "b"}, "headers": headers, "allow_redirects": False}
                async with ann.post("/act/x", **form) as answer:
                    assert answer.status == status, headers
            assert site.done == [("ann", {"a": "b"})]

            async with ann.get("/names") as answer:
                tag = {"If-None-Match": answer.headers["ETag"]}
            async with ann.get("/names", headers=tag) as answer:
                assert answer.status == 304, "an open tab asks through the proxy"


async def test_people_whose_tokens_the_cluster_does_not_take_are_impersonated(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    options = ("--pass-basic-auth", "--pass-user-headers", "--prefer-email-to-user")
    secret = {"OAUTH2_PROXY_BASIC_AUTH_PASSWORD": SECRET}
    async with (
        stage(TrustedProxy(tmp_path / "secret")) as site,
        behind(site, tmp_path, *options, **secret) as login,
    ):
        site.cluster.groups_to_impersonate = {"oidc:team"}
        site.may("oidc:team", *ADMIN)
        async with login.person("ann") as ann:
            assert ">oidc:ann@example.com</span>" in await text(ann, "/names")
        assert site.cluster.impersonated == [
            (("Impersonate-User", "oidc:ann@example.com"), ("Impersonate-Group", "oidc:team"))
        ]


async def test_a_client_cannot_name_a_user_through_the_proxy(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    options = ("--pass-basic-auth", "--pass-user-headers", "--prefer-email-to-user")
    async with (
        stage(TrustedProxy(tmp_path / "secret")) as site,
        behind(site, tmp_path, *options, OAUTH2_PROXY_BASIC_AUTH_PASSWORD=SECRET) as login,
    ):
        site.cluster.groups_to_impersonate = {"oidc:team", "oidc:admins"}
        site.may("oidc:team", *ADMIN)
        forged = {
            "X-Forwarded-User": "root",
            "X-Forwarded-Groups": "admins",
            "Authorization": "Basic cm9vdDp4",
        }
        async with login.person("ben") as ben:
            assert ">oidc:ben@example.com</span>" in await text(ben, "/names", **forged)
        (headers,) = site.cluster.impersonated
        assert headers == (("Impersonate-User", "oidc:ben@example.com"), ("Impersonate-Group", "oidc:team"))
        async with aiohttp.ClientSession(login.proxy) as stranger:
            async with stranger.get("/names", headers=forged, allow_redirects=False) as answer:
                assert answer.status == 302 and "/auth?" in answer.headers["Location"]
            assert (await site.get("/names", headers=forged))[0] == 401, "the page itself, without the proxy"


async def test_an_ended_login_leads_an_open_tab_to_the_next_one(tmp_path: Path) -> None:
    """A script's request is redirected to the provider, which app.js takes for the end of the login."""
    async with (
        stage(whole=True) as site,
        behind(site, tmp_path, "--pass-authorization-header") as login,
        aiohttp.ClientSession(login.proxy) as browser,
        browser.get("/jobs", headers={"If-None-Match": "x"}, allow_redirects=False) as answer,
    ):
        assert answer.status == 302
