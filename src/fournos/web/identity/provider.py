"""Logins at an OpenID Connect provider, or at OpenShift's OAuth server: the authorization code flow.

With state, nonce and PKCE (S256).  OpenShift's server has no ID tokens: there the access token is the
person's token at the API server, which alone decides who that is.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from fournos.web.errors import PageError
from fournos.web.identity.attempt import LoginAttempt

ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Signatures by a key that only the provider has."""
LEEWAY: Final = 60
"""Seconds by which the provider's clock may differ."""
_LIMIT: Final = 10.0
_LARGEST: Final = 2**20
_METADATA: Final = 3600.0
_KEYS_AGAIN: Final = 30.0
"""Seconds between two reads of the provider's keys at least: a made-up key's name costs no request."""


@dataclass(frozen=True, slots=True, repr=False)
class Finished:
    """What the provider returned.  Holds tokens: no repr."""

    token: str
    """The token for the API server."""
    claims: Mapping[str, Any]
    """The verified claims of the ID token; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How this page is registered at the provider."""

    issuer: str
    discovery: str
    """The address of the provider's metadata."""
    client_id: str
    client_secret: Callable[[], str]
    """Read each time, because it may be renewed."""
    redirect: str
    scopes: str
    bearer: Literal["id", "access"]
    """Which of the provider's tokens the API server takes."""


class Provider:
    """One provider.  Raises PageError: 503 if it does not answer, 401 if it refuses the person."""

    def __init__(
        self,
        registration: Registration,
        *,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        self._at = registration
        self._now = now
        self._monotonic = monotonic
        self._tls = tls
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._reading = asyncio.Lock()

    async def begin(self, path: str) -> tuple[str, LoginAttempt]:
        """Returns the address to send the browser to, and the attempt to keep; `path` is for afterwards."""
        metadata = await self._known()
        attempt = LoginAttempt(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), path
        )
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._at.client_id,
            "redirect_uri": self._at.redirect,
            "scope": self._at.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        address = str(metadata["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", attempt

    async def finish(self, attempt: LoginAttempt, query: Mapping[str, str]) -> Finished:
        """Exchanges the code that the browser brought.  `query` is that of the provider's redirect."""
        if not hmac.compare_digest(query.get("state", "").encode(), attempt.state.encode()):
            raise refused("This answer belongs to another login.")
        if "error" in query:
            raise refused(f"The provider refused the login: {query['error'][:100]}")
        if query.get("iss", self._at.issuer) != self._at.issuer:
            raise refused("This answer comes from another provider.")
        tokens = await self._exchange(attempt, query.get("code", ""))
        if self._at.bearer == "access":
            return Finished(_text(tokens, "access_token"), {})
        token = _text(tokens, "id_token")
        return Finished(token, await self._verified(token, attempt.nonce))

    async def _exchange(self, attempt: LoginAttempt, code: str) -> Mapping[str, Any]:
        metadata = await self._known()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._at.redirect,
            "code_verifier": attempt.verifier,
        }
        return await self._request("POST", str(metadata["token_endpoint"]), form)

    async def _verified(self, token: str, nonce: str) -> Mapping[str, Any]:
        """Returns the claims of an ID token, as OpenID Connect Core 3.1.3.7 has them checked."""
        registry = jwt.JWTClaimsRegistry(
            now=lambda: int(self._now()),
            leeway=LEEWAY,
            iss={"essential": True, "value": self._at.issuer},
            sub={"essential": True},
            aud={"essential": True, "value": self._at.client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = await self._decoded(token)
            registry.validate(claims.claims)
        except (JoseError, ValueError) as error:
            raise refused("The provider's ID token is not valid.") from error
        audience, party = claims.claims["aud"], claims.claims.get("azp")
        several = isinstance(audience, list) and len(audience) > 1
        if (party is not None or several) and party != self._at.client_id:
            raise refused("The provider's ID token is for another program.")
        return claims.claims

    async def _decoded(self, token: str) -> jwt.Token:
        try:
            return jwt.decode(token, await self._key_set(), algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            # The provider may have a new key.
            if self._keys is not None and self._monotonic() - self._keys[0] < _KEYS_AGAIN:
                raise
            self._keys = None
            return jwt.decode(token, await self._key_set(), algorithms=ALGORITHMS)

    async def _key_set(self) -> KeySet:
        async with self._reading:
            if self._keys is None or self._monotonic() - self._keys[0] > _METADATA:
                found = await self._request("GET", str((await self._known())["jwks_uri"]))
                self._keys = self._monotonic(), KeySet.import_key_set({"keys": list(found["keys"])})
            return self._keys[1]

    async def _known(self) -> Mapping[str, Any]:
        """Returns the provider's metadata.  Its issuer must be ours, and its addresses https."""
        if self._metadata is None or self._monotonic() - self._metadata[0] > _METADATA:
            discovered = await self._request("GET", self._at.discovery)
            if discovered.get("issuer") != self._at.issuer:
                raise _away("names another issuer")
            # Without ID tokens there is nothing to verify by keys.
            keys = ("jwks_uri",) if self._at.bearer == "id" else ()
            for name in ("authorization_endpoint", "token_endpoint", *keys):
                if urlsplit(str(discovered.get(name))).scheme != urlsplit(self._at.discovery).scheme:
                    raise _away(f"has no {name}")
            self._metadata = self._monotonic(), discovered
        return self._metadata[1]

    async def _request(
        self, method: str, address: str, form: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if form:
            # As in RFC 6749, 2.3.1.
            words = f"{quote_plus(self._at.client_id)}:{quote_plus(self._at.client_secret())}"
            headers["Authorization"] = f"Basic {base64.b64encode(words.encode()).decode()}"
        timeout = aiohttp.ClientTimeout(total=_LIMIT)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.request(
                    method, address, data=form, headers=headers, ssl=self._tls, allow_redirects=False
                ) as response,
            ):
                body = b""
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) > _LARGEST:
                        raise _away("answered too much")
                if form and response.status in (400, 401):
                    raise refused("The provider refused the login; it may have taken too long.")
                if response.status != 200:
                    raise _away(f"answered {response.status}")
                return _object(body)
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise _away(type(error).__name__) from error


def _object(body: bytes) -> dict[str, Any]:
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise ValueError("no object")
    return answer


def _text(tokens: Mapping[str, Any], name: str) -> str:
    text = tokens.get(name)
    if not isinstance(text, str) or not text:
        raise _away(f"returned no {name}")
    return text


def refused(message: str) -> PageError:
    return PageError(401, "Not logged in", message, "Log in again.")


def _away(why: str) -> PageError:
    return PageError(
        503, "The login provider does not answer", f"The provider {why}.", "Try again, or log in by a token."
    )
