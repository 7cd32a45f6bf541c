"""The rate limit of requests to an API server, and the backoff after failures."""

from __future__ import annotations

import asyncio
import random


class TokenBucket:
    """Allows at most `qps` requests per second over time and `burst` at once; waiters are served in order."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None
        self._paused_until = 0.0

    async def take(self) -> None:
        """Returns when one request may be sent."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        # The token is taken at once, even below zero: the debt is the position in the queue.
        self._tokens -= 1
        ready_at = now - self._tokens / self._qps if self._tokens < 0 else now
        try:
            while (wait := max(ready_at, self._paused_until) - loop.time()) > 1e-6:  # noqa: ASYNC110
                await asyncio.sleep(wait)  # then check again: `pause` may have moved the time
        except asyncio.CancelledError:
            self._tokens += 1
            raise

    def pause(self, seconds: float) -> None:
        """Delays all requests for so long, as the API server asked (Retry-After)."""
        until = asyncio.get_running_loop().time() + seconds
        self._paused_until = max(self._paused_until, until)


class Backoff:
    """Delays that grow with every failure, with decorrelated jitter so that clients do not retry together."""

    def __init__(self, *, base: float = 0.5, cap: float = 30.0, rng: random.Random | None = None) -> None:
        self._base = base
        self._cap = cap
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._last = base

    def next(self) -> float:
        """Returns the next delay in seconds."""
        self._last = min(self._cap, self._rng.uniform(self._base, self._last * 3))
        return self._last

    def reset(self) -> None:
        self._last = self._base
