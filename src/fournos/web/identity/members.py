"""The persons of a cluster: who a request comes from, and how they log in and out.

By a token of the cluster, at an OpenID Connect provider, or behind a proxy that has logged them in.  Reads of
watched objects are checked by SubjectAccessReviews; everything else goes to the API server with the person's
own token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from aiohttp import web

from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import KubeError
from fournos.engine.runtime.client_limits import RateLimit
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviewer import BusyError, Reviewer
from fournos.engine.runtime.ttl_cache import TtlCache
from fournos.insight.source import Source
from fournos.web.errors import LoginNeededError, PageError
from fournos.web.identity import impersonated
from fournos.web.identity.attempt import LoginAttempt
from fournos.web.identity.impersonated import Mapped
from fournos.web.identity.rights import Questions, SubjectRights
from fournos.web.identity.session_keys import SessionKeys
from fournos.web.identity.sessions import Cookies, Session
from fournos.web.limits import network_of, take
from fournos.web.permitted import Permitted
from fournos.web.posted import posted
from fournos.web.viewer import Viewer

if TYPE_CHECKING:
    from fournos.web.identity.provider import Finished, Provider

log = logging.getLogger(__name__)

CALLBACK: Final = "/login/provider/done"
_BEGIN: Final = "/login/provider"
_ATTEMPT: Final = 600
"""Seconds that a login at a provider may take."""
_LOGINS: Final = (0.5, 20)
"""Logins per second and at once of one address."""
_NEXT: Final = web.RequestKey("next", str)
"""In a request: the path to go to after the login, which a refused token must not lose."""
_IMPERSONATED: Final = 3600.0
"""Seconds of a session at most in which the page impersonates the person."""
_CLIENTS: Final = 1024
_CLIENT_SECONDS: Final = 600.0
_LONGEST: Final = 16_384
_SHORTEST: Final = 60.0
"""Seconds of a session at least: a provider with another clock must not send people around for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How persons log in."""

    by_token: bool = True
    proxy_header: str = ""
    """The header in which a proxy before the page names the person's token; empty: none is trusted."""
    provider: Provider | None = None
    provider_name: str = ""
    impersonation: Mapped | None = None
    """None: a person needs a token that the API server takes."""
    hours: float = 8.0
    proxies: int = 0
    """How many proxies before the page add to X-Forwarded-For."""


class Members:
    """People who log in."""

    logout = "/logout"

    def __init__(
        self,
        api: Client,
        ways: Ways,
        keys: SessionKeys,
        source: Source,
        questions: Questions,
        *,
        namespace: str,
        clock: Clock,
        cookies: Cookies | None = None,
    ) -> None:
        """`api` reviews tokens and rights, and impersonates where that is chosen."""
        self._api = api
        self._ways = ways
        self._keys = keys
        self._source = source
        self._questions = questions
        self._namespace = namespace
        self._clock = clock
        self._cookies = cookies or Cookies()
        self._reviewer = Reviewer(api, monotonic=clock.monotonic)
        self._logins = RateLimit(*_LOGINS, monotonic=clock.monotonic)
        self._clients: TtlCache[str, Client] = TtlCache(_CLIENTS, monotonic=clock.monotonic)

    def routes(self) -> list[web.RouteDef]:
        routes = [web.post(self.logout, self._log_out)]
        if self._ways.by_token:
            routes.append(web.post("/login", self._by_token))
        if self._ways.provider is not None:
            routes += [web.get(_BEGIN, self._begin), web.get(CALLBACK, self._done)]
        return routes

    def login(self, request: web.Request) -> Mapping[str, Any]:
        """Returns what the login page shows."""
        asked = request.query.get("next", "") if request.path.startswith("/login") else request.path_qs
        asked = request.get(_NEXT, asked)
        return {
            "next": local_path(asked),
            "by_token": self._ways.by_token,
            "provider": self._ways.provider_name if self._ways.provider else "",
            "begin": _BEGIN,
        }

    # --- who it is -------------------------------------------------------------------------------------

    async def viewer(self, request: web.Request) -> Viewer:
        proxied = request.headers.get(self._ways.proxy_header, "") if self._ways.proxy_header else ""
        if proxied:
            user = await self._user(proxied, "Your proxy's token is not valid in this cluster.")
            return self._viewer(user, proxied, self._csrf_of(user), way="proxy")
        session = self._cookies.read(request, self._keys.sealer())
        if session is None:
            raise LoginNeededError
        again = ""
        if session.way == "provider" and self._ways.provider is not None:
            # The provider mostly logs the person in again without a form.
            again = f"{_BEGIN}?{urlencode({'next': local_path(request.path_qs)})}"
        if session.ends <= self._clock.now().timestamp():
            raise LoginNeededError("Your session has ended. Log in again.", location=again)
        if self._keys.ended(session):
            raise LoginNeededError
        if session.user is not None:
            if self._ways.impersonation is None:
                raise LoginNeededError
            return self._viewer(session.user, "", session.csrf, way=session.way)
        user = await self._user(session.token, "Your token has ended. Log in again.", location=again)
        return self._viewer(user, session.token, session.csrf, way=session.way)

    async def _user(self, token: str, refusal: str, *, location: str = "") -> User:
        if len(token) > _LONGEST or not token.isascii() or not token.isprintable():
            raise LoginNeededError(refusal)
        try:
            user = await self._reviewer.user(token)
        except BusyError:
            raise PageError(
                429,
                "Too many logins",
                "Too many tokens are being reviewed.",
                "Try again in a second.",
                headers={"Retry-After": "1"},
            ) from None
        if user is None:
            raise LoginNeededError(refusal, location=location)
        return user

    def _viewer(self, user: User, token: str, csrf: str, *, way: str) -> Viewer:
        reviewed = user if token else impersonated.reviewed_as(user)
        own = self._client(user, token)
        rights = SubjectRights(self._reviewer, reviewed, self._questions, own=own)
        # A page that waits for the history shows nothing of the rest.
        client = AsyncClient(api=own, namespace=self._namespace, owner=user.name, patience=0)
        source = Permitted(self._source, rights.may, self._questions.spaces)
        return Viewer(user.name, source, client, rights, csrf, way != "proxy")

    def _client(self, user: User, token: str) -> Client:
        """Returns the person's client, the same one for some time: it has a rate limit."""
        proof = token or repr(user)
        key = hashlib.sha256(proof.encode()).hexdigest()
        if (found := self._clients.get(key)) is None:
            found = self._api.bearing(token) if token else self._api.impersonating(impersonated.headers(user))
        return self._clients.put(key, found, _CLIENT_SECONDS)

    def _csrf_of(self, user: User) -> str:
        """Returns a token for a person without a session: the proxy has the session."""
        return self._keys.sealer().mark(f"csrf {user.name} {user.uid}")

    # --- logging in and out ----------------------------------------------------------------------------

    async def _by_token(self, request: web.Request) -> web.StreamResponse:
        take(self._logins, network_of(request, self._ways.proxies))
        form = await posted(request)
        request[_NEXT] = form.get("next", "")
        token = form.get("token", "").strip().removeprefix("Bearer ").strip()
        await self._user(token, "This token is not valid in this cluster.")
        return self._begun(Session(token, _fresh(), self._ends(), "token"), form.get("next", ""))

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        assert self._ways.provider is not None
        take(self._logins, network_of(request, self._ways.proxies))
        address, attempt = await self._ways.provider.begin(local_path(request.query.get("next", "")))
        response = web.Response(status=303, headers={"Location": address, "Cache-Control": "no-store"})
        sealed = self._keys.sealer().seal("attempt", asdict(attempt))
        self._cookies.set(response, self._cookies.name("login"), sealed, _ATTEMPT)
        return response

    async def _done(self, request: web.Request) -> web.StreamResponse:
        assert self._ways.provider is not None
        take(self._logins, network_of(request, self._ways.proxies))
        name = self._cookies.name("login")
        sealed = self._keys.sealer().open("attempt", request.cookies.get(name, ""))
        if sealed is None:
            raise LoginNeededError("The login took too long, or began in another browser.")
        attempt = LoginAttempt(**sealed)
        finished = await self._ways.provider.finish(attempt, request.query)
        user = await self._accepted(finished.token)
        if user is None:
            if self._ways.impersonation is None or not finished.claims:
                raise PageError(
                    403,
                    "Not logged in",
                    "The API server of this cluster does not take tokens of this provider.",
                    "Log in by a token of the cluster, or ask an administrator of the page.",
                )
            person = self._ways.impersonation.user(finished.claims)
            person = replace(person, groups=await impersonated.permitted(self._api, person.groups))
            # No token of the person's is reviewed meanwhile, so the provider is asked again soon.
            ends = self._ends_with(finished, _IMPERSONATED)
            session = Session("", _fresh(), ends, "provider", person)
        else:
            session = Session(finished.token, _fresh(), self._ends_with(finished), "provider")
        response = self._begun(session, attempt.next)
        self._cookies.delete(response, name)
        return response

    async def _accepted(self, token: str) -> User | None:
        try:
            return await self._user(token, "")
        except LoginNeededError:
            return None

    def _begun(self, session: Session, path: str) -> web.StreamResponse:
        headers = {"Location": local_path(path), "Cache-Control": "no-store"}
        response = web.Response(status=303, headers=headers)
        return self._cookies.write(response, self._keys.sealer(), session, self._clock.now().timestamp())

    async def _log_out(self, request: web.Request) -> web.StreamResponse:
        try:
            expected = (await self.viewer(request)).csrf
        except (LoginNeededError, KubeError):
            expected = ""  # the session is of no use any more, so nothing is lost without it
        # The form is read only for a valid session: another client must not cost the time of reading it.
        given = (await posted(request)).get("csrf", "") if expected else ""
        if expected and not hmac.compare_digest(given.encode(), expected.encode()):
            raise PageError(403, "Refused", "The form belongs to another session.", "Load the page again.")
        if expected and (session := self._cookies.read(request, self._keys.sealer())) is not None:
            try:
                await self._keys.end(session)
            except KubeError as error:
                log.warning("other replicas take the cookie of an ended session: %s", error.message)
        response = web.Response(status=303, headers={"Location": "/login", "Cache-Control": "no-store"})
        response.headers["Clear-Site-Data"] = '"cache"'
        return self._cookies.clear(response)

    def _ends_with(self, finished: Finished, limit: float = inf) -> float:
        """Returns the end of a session: of the provider's token, and at most `limit` seconds from now."""
        now = self._clock.now().timestamp()
        given = float(finished.claims.get("exp") or inf)
        return max(now + _SHORTEST, min(self._ends(), given, now + limit))

    def _ends(self) -> float:
        return self._clock.now().timestamp() + self._ways.hours * 3600


def _fresh() -> str:
    return secrets.token_urlsafe(32)


def local_path(text: str) -> str:
    """Returns the path if it is one of this page, else "/": a login must not send a person elsewhere."""
    odd = not text.startswith("/") or text.startswith("//") or "\\" in text or not text.isprintable()
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    return "/" if odd or parts.scheme or parts.netloc or len(text) > 2000 else text
