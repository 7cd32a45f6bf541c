"""Logins at an OpenID Connect provider.  The provider is a stand-in: it signs, and checks PKCE."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from fournos.web.errors import PageError
from fournos.web.identity.impersonated import Mapped
from fournos.web.identity.members import CALLBACK, Ways
from fournos.web.identity.provider import Provider, Registration
from tests.unit.web.stage import ADMIN, NOW, Stage, stage

CLIENT = "fournos"
KEY = RSAKey.generate_key(2048, {"kid": "one"})


@dataclass
class StandIn:
    """A provider."""

    issuer: str = ""
    keys: list[Any] = field(default_factory=lambda: [KEY])
    signs: Any = field(default_factory=lambda: KEY)
    algorithm: str = "RS256"
    claims: dict[str, Any] = field(default_factory=dict)
    """Replaces claims of the ID token; None leaves one out."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Code → the query with which the browser came."""
    forms: list[dict[str, str]] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    key_reads: int = 0
    broken: int = 0
    """The status of every answer; 0: none is broken."""
    issued: list[str] = field(default_factory=list)
    """The ID tokens."""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        return app

    def authorize(self, location: str) -> dict[str, str]:
        """The person logs in; returns the query with which the browser goes back."""
        assert location.startswith(f"{self.issuer}/authorize?")
        query = dict(parse_qsl(urlsplit(location).query))
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    async def _discovery(self, request: web.Request) -> web.Response:
        if self.broken:
            return web.Response(status=self.broken)
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return web.json_response({**found, **self.metadata})

    async def _keys(self, request: web.Request) -> web.Response:
        self.key_reads += 1
        return web.json_response(KeySet(self.keys).as_dict(private=False))

    async def _token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.forms.append(form)
        self.clients.append(base64.b64decode(request.headers["Authorization"].split()[1]).decode())
        asked = self.codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked is None or challenge.rstrip(b"=").decode() != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "ann",
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": asked["nonce"],
        } | self.claims
        header = {"alg": self.algorithm, "kid": self.signs.kid}
        given = {name: value for name, value in claims.items() if value is not None}
        self.issued.append(jwt.encode(header, given, self.signs, algorithms=[self.algorithm]))
        return web.json_response({"id_token": self.issued[-1], "access_token": "t-ann"})


@dataclass
class Clocks:
    at: float = 0.0


@asynccontextmanager
async def provider(**given: Any) -> AsyncIterator[tuple[StandIn, Provider, Clocks]]:
    stand_in, clocks = StandIn(), Clocks()
    async with TestServer(stand_in.app()) as server:
        stand_in.issuer = str(server.make_url("")).rstrip("/")
        registration = Registration(
            issuer=stand_in.issuer,
            discovery=f"{stand_in.issuer}/.well-known/openid-configuration",
            client_id=CLIENT,
            client_secret=lambda: "s3cret",
            redirect=f"https://fournos.example.com{CALLBACK}",
            scopes="openid",
            **{"bearer": "id", **given},
        )
        yield stand_in, Provider(registration, now=time.time, monotonic=lambda: clocks.at), clocks


async def test_a_login_with_state_nonce_and_pkce() -> None:
    async with provider() as (stand_in, found, _):
        location, attempt = await found.begin("/queue")
        query = parse_qs(urlsplit(location).query)
        assert query["redirect_uri"] == [f"https://fournos.example.com{CALLBACK}"]
        assert query["response_type"] == ["code"] and query["code_challenge_method"] == ["S256"]
        assert attempt.verifier not in location
        finished = await found.finish(attempt, stand_in.authorize(location))
        assert finished.claims["sub"] == "ann" and finished.token == stand_in.issued[0]
        assert stand_in.clients == ["fournos:s3cret"]
        assert "s3cret" not in repr(finished) and finished.token not in repr(finished)


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example.com"},
        {"aud": "another"},
        {"aud": ["fournos", "another"]},
        {"aud": ["fournos"], "azp": "another"},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"nonce": "of another login"},
        {"nonce": None},
        {"sub": None},
        {"nbf": 2**40},
    ],
)
async def test_an_id_token_that_is_not_for_this_login_is_refused(claims: dict[str, Any]) -> None:
    async with provider() as (stand_in, found, _):
        stand_in.claims = claims
        location, attempt = await found.begin("/")
        with pytest.raises(PageError) as error:
            await found.finish(attempt, stand_in.authorize(location))
        assert error.value.status == 401


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (RSAKey.generate_key(2048, {"kid": "one"}), "RS256"),  # of another issuer
        (OctKey.generate_key(256, {"kid": "one"}), "HS256"),
        (RSAKey.generate_key(2048, {"kid": "two"}), "RS256"),
    ],
)
async def test_a_signature_of_another_key_is_refused(key: Any, algorithm: str) -> None:
    async with provider() as (stand_in, found, _):
        stand_in.signs, stand_in.algorithm = key, algorithm
        location, attempt = await found.begin("/")
        with pytest.raises(PageError) as error:
            await found.finish(attempt, stand_in.authorize(location))
        assert error.value.status == 401


async def test_no_signature_is_no_signature() -> None:
    async with provider() as (stand_in, found, _):
        _, attempt = await found.begin("/")
        claims = {"iss": stand_in.issuer, "sub": "ann", "aud": CLIENT, "exp": 2**40, "iat": 1}
        none = ".".join(
            base64.urlsafe_b64encode(str(part).replace("'", '"').encode()).rstrip(b"=").decode()
            for part in ({"alg": "none"}, claims | {"nonce": attempt.nonce})
        )
        with pytest.raises(PageError):
            await found._verified(none + ".", attempt.nonce)


async def test_a_new_key_of_the_provider_is_read_and_a_made_up_one_costs_no_request() -> None:
    async with provider() as (stand_in, found, clocks):
        location, attempt = await found.begin("/")
        await found.finish(attempt, stand_in.authorize(location))
        new = ECKey.generate_key("P-256", {"kid": "new"})
        stand_in.keys, stand_in.signs, stand_in.algorithm = [KEY, new], new, "ES256"
        for wait, reads in ((0, 1), (31, 2)):
            clocks.at += wait
            location, attempt = await found.begin("/")
            if wait:
                await found.finish(attempt, stand_in.authorize(location))
            else:
                with pytest.raises(PageError):
                    await found.finish(attempt, stand_in.authorize(location))
            assert stand_in.key_reads == reads


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "of another login"},
        {"state": ""},
        {"code": "forged"},
        {"error": "access_denied"},
        {"iss": "https://evil.example.com"},
    ],
)
async def test_an_answer_of_another_login_is_refused(changed: dict[str, str]) -> None:
    async with provider() as (stand_in, found, _):
        location, attempt = await found.begin("/")
        with pytest.raises(PageError) as error:
            await found.finish(attempt, {**stand_in.authorize(location), **changed})
        assert error.value.status == 401


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example.com"},
        {"token_endpoint": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": "ftp://keys.example.com/keys"},
        {"jwks_uri": None},
    ],
)
async def test_metadata_of_another_provider_are_refused(metadata: dict[str, str]) -> None:
    async with provider() as (stand_in, found, _):
        stand_in.metadata = metadata
        with pytest.raises(PageError) as error:
            await found.begin("/")
        assert error.value.status == 503


async def test_an_unreachable_provider_is_reported() -> None:
    async with provider() as (stand_in, found, _):
        stand_in.broken = 500
        with pytest.raises(PageError) as error:
            await found.begin("/")
        assert (error.value.status, error.value.title) == (503, "The login provider does not answer")


# --- on the page ---------------------------------------------------------------------------------------


async def login(site: Stage, stand_in: StandIn, path: str = "/names") -> Any:
    """Logs in as a browser does; returns the last answer."""
    begun = await site.client.get(f"/login/provider?next={path}", allow_redirects=False)
    assert begun.status == 303 and "HttpOnly" in begun.headers["Set-Cookie"]
    back = stand_in.authorize(begun.headers["Location"])
    return await site.client.get(CALLBACK, params=back, allow_redirects=False)


async def test_a_person_of_the_provider_has_a_session_with_their_own_token() -> None:
    async with provider() as (stand_in, found, _):  # noqa: SIM117 - the second needs the first
        async with stage(Ways(provider=found, provider_name="Acme")) as site:
            site.may("ann", *ADMIN)
            assert "Log in with Acme" in (await site.get("/"))[1]
            site.clock.at = time.time() - site.clock.now().timestamp()
            # The API server of this cluster knows the provider.
            stand_in.claims = {}
            site.cluster.users = KnowsAll()
            answer = await login(site, stand_in)
            assert (answer.status, answer.headers["Location"]) == (303, "/names")
            assert (await site.get("/names"))[0] == 200
            assert site.cluster.bearers == [stand_in.issued[0]]
            # The ID token ends after five minutes: the provider is asked again, without a login page.
            site.clock.at += 301
            async with site.client.get("/names?phase=Running", allow_redirects=False) as again:
                assert again.status == 303
                assert again.headers["Location"] == "/login/provider?next=%2Fnames%3Fphase%3DRunning"


class KnowsAll(dict[str, str]):
    def get(self, key: str, default: Any = None) -> Any:
        return "ann"


async def test_openshift_s_server_has_no_id_token() -> None:
    async with provider(bearer="access") as (stand_in, found, _), stage(Ways(provider=found)) as site:
        site.may("ann", *ADMIN)
        assert (await login(site, stand_in)).status == 303
        assert (await site.get("/names"))[0] == 200
        assert site.cluster.bearers == ["t-ann"] and stand_in.key_reads == 0


async def test_an_answer_for_another_browser_is_refused() -> None:
    async with provider() as (stand_in, found, _), stage(Ways(provider=found)) as site:
        begun = await site.client.get("/login/provider", allow_redirects=False)
        back = stand_in.authorize(begun.headers["Location"])
        site.client.session.cookie_jar.clear()
        async with site.client.get(CALLBACK, params=back, allow_redirects=False) as answer:
            assert answer.status == 401
            assert "began in another browser" in await answer.text()
            assert stand_in.forms == []


async def test_a_token_that_the_api_server_does_not_take_is_no_login() -> None:
    async with provider() as (stand_in, found, _), stage(Ways(provider=found)) as site:
        answer = await login(site, stand_in)
        assert answer.status == 403
        assert "does not take tokens of this provider" in await answer.text()
        assert (await site.get("/"))[0] == 401


@pytest.mark.parametrize("incomplete", [False, True])
async def test_with_impersonation_the_page_acts_as_the_person_of_the_claims(incomplete: bool) -> None:
    async with provider() as (stand_in, found, _):
        stand_in.claims = {"groups": ["team", *(f"not-listed-{number}" for number in range(50))]}
        async with stage(Ways(provider=found, impersonation=Mapped())) as site:
            site.cluster.incomplete = incomplete
            site.may("oidc:team", *ADMIN)
            site.cluster.groups_to_impersonate = {"oidc:team"}
            assert (await login(site, stand_in)).status == 303
            assert (await site.get("/names"))[0] == 200
            assert site.cluster.impersonated == [
                (("Impersonate-User", "oidc:ann"), ("Impersonate-Group", "oidc:team"))
            ]
            spec = site.cluster.reviews[-1][1]["spec"]
            assert (spec["user"], spec["groups"]) == ("oidc:ann", ["oidc:team", "system:authenticated"])
            requests = len(site.cluster.own_reviews)
            assert requests == (52 if incomplete else 1), "one for all groups where the rules can be listed"


@pytest.mark.parametrize(("token_seconds", "seconds"), [(1800, 1800), (86_400, 3600)])
async def test_a_session_by_impersonation_ends_with_the_id_token_and_within_an_hour(
    token_seconds: int, seconds: int
) -> None:
    """Then the provider is asked again, mostly without a form."""
    async with (
        provider() as (stand_in, found, _),
        stage(Ways(provider=found, impersonation=Mapped())) as site,
    ):
        site.clock.at = time.time() - NOW.timestamp()
        stand_in.claims = {"exp": int(time.time()) + token_seconds}
        site.may("oidc:ann", *ADMIN)
        await login(site, stand_in)
        site.clock.at += seconds - 60
        assert (await site.get("/names"))[0] == 200
        site.clock.at += 120
        assert (await site.get("/names"))[0] == 303


@pytest.mark.parametrize(
    ("mapped", "claims"),
    [
        (Mapped(user_prefix=""), {"sub": "system:admin"}),
        (Mapped(user_prefix=""), {"sub": "System:serviceaccount:kube-system:default"}),
        (Mapped(groups_prefix=""), {"groups": ["team", "system:masters"]}),
        (Mapped(groups_prefix=""), {"groups": "system:masters"}),
        (Mapped(user_prefix="sys"), {"sub": "tem:admin"}),
        (Mapped(user_claim="email"), {"email": "ann@example.com"}),
        (Mapped(user_claim="email"), {"email": "ann@example.com", "email_verified": False}),
        (Mapped(user_claim="name"), {}),
        (Mapped(), {"sub": "ann\r\nImpersonate-Group: system:masters"}),
    ],
)
async def test_identities_of_kubernetes_itself_are_not_impersonated(
    mapped: Mapped, claims: dict[str, Any]
) -> None:
    async with provider() as (stand_in, found, _):
        stand_in.claims = claims
        async with stage(Ways(provider=found, impersonation=mapped)) as site:
            assert (await login(site, stand_in)).status == 403
            assert site.cluster.impersonated == []
            assert (await site.get("/"))[0] == 401
