"""Finds out who calls: from a bearer token, or from the API server that forwards the request."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.kinds import TOKEN_REVIEW
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.client_limits import REVIEWS, RateLimit, network
from fournos.engine.runtime.decision import Facts, Unknown, User
from fournos.engine.runtime.fetch_facts import answered
from fournos.engine.runtime.reviews import bearer, token_review, user_of
from fournos.engine.runtime.ttl_cache import TtlCache
from fournos.history.api.errors import (
    ForbiddenError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from fournos.systems.jobs.own_job import job_of_pod

KEPT: Final = 1024
"""Maximum number of tokens whose result is cached."""
KNOWN: Final = 60.0
"""Seconds for which a token is known; a deleted ServiceAccount can read for that time."""
UNKNOWN: Final = 5.0
AT_ONCE: Final = 8
"""Maximum number of concurrent reviews: a flood of unknown tokens must not reach the API server."""
AUDIENCE: Final = "history.fournos.dev"
"""The audience of a token that can do nothing else than send results and artifacts of its own job."""
_SECONDS: Final = 10.0
_ROUNDS: Final = 6


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The headers in which an API server names the caller of a request that it forwards (aggregation layer).

    They count only on a connection whose client certificate was verified, for one of `names`.
    """

    names: tuple[str, ...] = ()
    """The common names of the API server's client certificate; empty: any."""
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ()
    """None by default: an API server that names none removes none from what its callers send."""
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)

    def user(self, request: web.Request) -> User | None:
        """Returns the caller; None if the request does not come from the API server."""
        caller = _common_name(request)
        if caller is None or (self.names and caller not in self.names):
            return None
        headers = request.headers
        user = next((headers[header] for header in self.user_headers if headers.get(header)), "")
        if not user:
            return None
        extra: dict[str, tuple[str, ...]] = {}
        for header in headers:
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    # The API server encodes what a header's name cannot have, such as a slash.
                    name = unquote(header[len(prefix) :].lower())
                    extra[name] = tuple(headers.getall(header))
        return User(
            name=user,
            uid=next((headers[header] for header in self.uid_headers if headers.get(header)), ""),
            groups=tuple(group for header in self.group_headers for group in headers.getall(header, [])),
            extra=tuple(sorted(extra.items())),
        )


def _common_name(request: web.Request) -> str | None:
    transport = request.transport
    # Python's ssl module returns a certificate here only if it has verified it.
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return ""


class Authenticator:
    """Finds the user of a request.  Caches only digests of tokens, never tokens."""

    def __init__(
        self, api: Api, *, monotonic: Callable[[], float], front_proxy: FrontProxy | None = None
    ) -> None:
        self._api = api
        self._front_proxy = front_proxy
        self._reviewed: TtlCache[bytes, User | str] = TtlCache(KEPT, monotonic=monotonic)
        self._reviews = RateLimit(*REVIEWS, monotonic=monotonic)
        self._room = asyncio.Semaphore(AT_ONCE)

    async def user(self, request: web.Request, *, audience: str = "") -> User:
        """`audience`: for whom the token must be; empty: for the API server.

        Raises UnauthorizedError, TooManyRequestsError, UnavailableError.
        """
        if self._front_proxy is not None and (user := self._front_proxy.user(request)) is not None:
            return user
        token = bearer(request.headers.get("Authorization", ""))
        if not token:
            raise UnauthorizedError("a bearer token of this cluster is needed")
        digest = hashlib.sha256(f"{audience} {token}".encode()).digest()
        reviewed = self._reviewed.get(digest)
        if reviewed is None:
            if wait := self._reviews.take(network(request.remote or "")):
                raise TooManyRequestsError("too many unknown tokens come from here", retry_after=wait)
            if self._room.locked():
                raise TooManyRequestsError("too many tokens are being reviewed", retry_after=1)
            async with self._room:
                reviewed = await self._review(digest, token, audience)
        if isinstance(reviewed, str):
            raise UnauthorizedError(reviewed)
        return reviewed

    async def _review(self, digest: bytes, token: str, audience: str) -> User | str:
        review = token_review(token, audiences=(audience,) if audience else ())
        try:
            user = user_of(await self._api.create(TOKEN_REVIEW, review))
        except KubeError as error:
            raise UnavailableError("the API server cannot review the token now", retry_after=2) from error
        if user is None:
            where = f"for {audience}" if audience else "in this cluster"
            return self._reviewed.put(digest, f"the token is not valid {where}", UNKNOWN)
        return self._reviewed.put(digest, user, KNOWN)


async def own_job(user: User, api: Api) -> Obj:
    """Returns the FournosJob of the calling pod.  Raises ForbiddenError and UnavailableError.

    All tasks of a namespace may share a ServiceAccount, so its name does not tell which job calls.  The pod
    in the token does.
    """

    def decide(facts: Facts) -> Obj | str | Unknown:
        return job_of_pod(user, facts)

    job = await answered(decide, api, seconds=_SECONDS, rounds=_ROUNDS)
    if isinstance(job, Unknown):
        raise UnavailableError("the job of the calling pod cannot be looked up now", retry_after=2)
    if isinstance(job, str):
        raise ForbiddenError(f"only a pod of a FournosJob's run may send to its own job: {job}")
    return job
