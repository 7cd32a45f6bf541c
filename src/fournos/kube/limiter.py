"""How fast we may ask an API server, and how long to wait after a failure."""

from __future__ import annotations

import asyncio
import random


class TokenBucket:
    """At most `qps` requests a second over time, `burst` at once; waiters are served in order."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None
        self._paused_until = 0.0

    async def take(self) -> None:
        """Return when one request may be sent."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        # A token is reserved at once, below zero if need be: the debt is the place in the line.
        self._tokens -= 1
        ready_at = now - self._tokens / self._qps if self._tokens < 0 else now
        try:
            while (wait := max(ready_at, self._paused_until) - loop.time()) > 1e-6:  # noqa: ASYNC110
                await asyncio.sleep(wait)  # and look again: `pause` may have moved the time on
        except asyncio.CancelledError:
            self._tokens += 1
            raise

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the API server asked for it (Retry-After)."""
        until = asyncio.get_running_loop().time() + seconds
        self._paused_until = max(self._paused_until, until)


class Backoff:
    """Waits that grow with every failure and never fall in step with others' (decorrelated jitter)."""

    def __init__(self, *, base: float = 0.5, cap: float = 30.0, rng: random.Random | None = None) -> None:
        self._base = base
        self._cap = cap
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._last = base

    def next(self) -> float:
        """Seconds to wait now."""
        self._last = min(self._cap, self._rng.uniform(self._base, self._last * 3))
        return self._last

    def reset(self) -> None:
        self._last = self._base
