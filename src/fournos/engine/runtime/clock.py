"""The injected clock: decisions get `now`; leases and backoff use a clock that is never set back."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> datetime:
        """The wall clock time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; the value only grows."""
        ...


# CLOCK_BOOTTIME also counts the time that a machine is suspended.  Without that, a leader that wakes up
# would rely on a lease that another process may have taken meanwhile.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)
