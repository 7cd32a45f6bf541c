"""Authorization of /metrics: each token is reviewed by the API server; the results are cached for a short
time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ForbiddenError, KubeError
from fournos.engine.kube.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.engine.runtime.client_limits import REVIEWS, RateLimit, network
from fournos.engine.runtime.reviews import access_review, allowed, bearer, token_review, user_of

log = logging.getLogger(__name__)

PATH: Final = "/metrics"
AT_ONCE: Final = 8
"""Maximum number of concurrent reviews.  Above it the response is 429, so that a flood of unknown tokens does
not reach the API server."""
KEPT: Final = 1024
"""Maximum number of cached results."""
REFUSAL: Final = 10.0
"""Maximum seconds that a refusal is cached, because a right that was just granted must take effect soon."""
_METRICS: Final = {"path": PATH, "verb": "get"}
_REMEMBERED: Final = 600.0
"""Seconds after the expiry of a permission for which its token still counts as a known one."""


class ScrapeVerdict(IntEnum):
    """The result for a token, as an HTTP status."""

    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    TOO_MANY = 429
    UNSURE = 503


# --- reviews --------------------------------------------------------------------------------------


class Authorizer:
    """Decides whether a token may read /metrics.  Caches only digests of tokens, never tokens."""

    def __init__(self, api: Api, *, monotonic: Callable[[], float], lifetime: float) -> None:
        """`lifetime`: seconds for which a result is cached."""
        self._api = api
        self._monotonic = monotonic
        self._lifetime = lifetime
        self._kept: dict[bytes, tuple[float, ScrapeVerdict]] = {}
        self._reviews = RateLimit(*REVIEWS, monotonic=monotonic)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._problem = ""

    async def authorize(self, header: str, *, address: str = "") -> ScrapeVerdict:
        """Returns the result for a request.  `header`: its Authorization header; `address`: its client's."""
        token = bearer(header)
        if not token:
            return ScrapeVerdict.UNKNOWN
        digest = hashlib.sha256(token.encode()).digest()
        until, verdict = self._kept.get(digest, (0.0, ScrapeVerdict.UNSURE))
        if self._monotonic() < until:
            return verdict
        if verdict is ScrapeVerdict.ALLOWED:
            # A known token skips the limit: a flood of unknown tokens must not stop its scrapes.
            verdict = await self._review(token)
        elif self._reviews.take(network(address)) or self._room.locked():
            return ScrapeVerdict.TOO_MANY
        else:
            async with self._room:
                verdict = await self._review(token)
        if verdict is not ScrapeVerdict.UNSURE:
            self._keep(digest, verdict)
        return verdict

    async def _review(self, token: str) -> ScrapeVerdict:
        try:
            user = user_of(await self._api.create(TOKEN_REVIEW, token_review(token)))
            if user is None:
                return ScrapeVerdict.UNKNOWN
            answer = await self._api.create(
                SUBJECT_ACCESS_REVIEW, access_review(user, nonResourceAttributes=_METRICS)
            )
        except KubeError as error:
            self._report(error)
            return ScrapeVerdict.UNSURE
        self._problem = ""
        return ScrapeVerdict.ALLOWED if allowed(answer) else ScrapeVerdict.FORBIDDEN

    def _report(self, error: KubeError) -> None:
        """Logs an error once for each kind of error, not for each scrape."""
        problem = type(error).__name__
        if problem != self._problem:
            fix = (
                "; the operator needs the right to create tokenreviews.authentication.k8s.io and "
                "subjectaccessreviews.authorization.k8s.io"
                if isinstance(error, ForbiddenError)
                else ""
            )
            log.warning("metrics: a token cannot be reviewed: %s%s", error.message, fix)
        self._problem = problem

    def _keep(self, digest: bytes, verdict: ScrapeVerdict) -> None:
        now = self._monotonic()
        self._kept.pop(digest, None)
        for stale in [key for key, (until, cached) in self._kept.items() if until + _grace(cached) <= now]:
            del self._kept[stale]
        while len(self._kept) >= KEPT:
            # The oldest refusal goes first: a flood of unknown tokens must not evict the permissions.
            refused = (key for key, (_, cached) in self._kept.items() if cached is not ScrapeVerdict.ALLOWED)
            del self._kept[next(refused, None) or next(iter(self._kept))]
        lifetime = self._lifetime if verdict is ScrapeVerdict.ALLOWED else min(self._lifetime, REFUSAL)
        if lifetime > 0:
            self._kept[digest] = (now + lifetime, verdict)


def _grace(verdict: ScrapeVerdict) -> float:
    return _REMEMBERED if verdict is ScrapeVerdict.ALLOWED else 0.0
