"""Limits by client, where its address is known; behind a proxy or an API server all have one address."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final

KEPT: Final = 4096
"""Maximum number of keys; a full limiter loses the one that was used longest ago."""
REVIEWS: Final = (2.0, 40)
"""Reviews of unknown tokens of one address: per second over time, and at once."""


def network(address: str) -> str:
    """Returns the key by which limits count a client: its IPv4 address, or its IPv6 network (/64).

    One client has all addresses of a /64.  A text that is not an address is returned unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


class RateLimit:
    """Allows each key `burst` calls at once and `per_second` over time."""

    def __init__(self, per_second: float, burst: int, *, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, float]] = {}
        """Key → the tokens left and the time of that."""

    def take(self, key: str) -> int:
        """Counts a call.  Returns 0 if it is allowed, else the seconds until the next one, at least 1."""
        now = self._monotonic()
        tokens, since = self._kept.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1
        self._kept[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return 0 if allowed else max(1, round((1 - tokens) / self._per_second))
