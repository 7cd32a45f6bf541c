"""Rate limits of the page, by person."""

from __future__ import annotations

from fournos.engine.runtime.client_limits import RateLimit
from fournos.web.errors import PageError


def take(limit: RateLimit, key: str) -> None:
    """Raises PageError 429 for a call beyond the limit."""
    if wait := limit.take(key):
        raise PageError(
            429,
            "Too many requests",
            "You send too many requests.",
            f"Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )
