"""Rate limits of the page, by person or network."""

from __future__ import annotations

from aiohttp import web

from fournos.engine.runtime.client_limits import RateLimit, network
from fournos.web.errors import PageError


def take(limit: RateLimit, key: str) -> None:
    """Raises PageError 429 for a call beyond the limit."""
    if wait := limit.take(key):
        raise PageError(
            429,
            "Too many requests",
            "Too many requests came from this address.",
            f"Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


def network_of(request: web.Request, proxies: int) -> str:
    """Returns the network of the client before so many proxies; each has added one to X-Forwarded-For.

    What a client itself wrote into the header stands before those, and does not count.
    """
    given = ",".join(request.headers.getall("X-Forwarded-For", []))
    found = [one.strip() for one in given.split(",") if one.strip()]
    return network(found[-proxies] if 0 < proxies <= len(found) else request.remote or "")
