"""Rate limits by person or address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fournos.web.errors import PageError

KEPT: Final = 4096
"""Maximum number of keys; a full limiter loses the one that was used longest ago."""


class Limit:
    """Allows each key `burst` calls at once and `per_second` over time."""

    def __init__(self, per_second: float, burst: int, *, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, float]] = {}
        """Key → the tokens left and the time of that."""

    def take(self, key: str) -> None:
        """Raises PageError 429 for a call beyond the limit."""
        now = self._monotonic()
        tokens, since = self._kept.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1
        self._kept[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        if not allowed:
            wait = max(1, round((1 - tokens) / self._per_second))
            raise PageError(
                429,
                "Too many requests",
                "More requests came from here than the page answers.",
                f"Try again in {wait} s.",
                headers={"Retry-After": str(wait)},
            )
