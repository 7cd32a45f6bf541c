"""How much of the logs of a run is kept.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOUR: Final = 3600.0
TAIL: Final = 100
"""Lines that are kept of the end of a log that was cut."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """The limits of one run."""

    bytes: int = 200_000_000
    bytes_per_hour: int = 100_000_000


@dataclass(frozen=True, slots=True)
class Cut:
    """Lines are left out from here on."""

    again_at: float | None
    """When the log goes on, by the monotonic clock; None: not before its end."""
    mark: str
    """The line that stands in their place."""


class LogBudget:
    """What the logs of one run may still take; its containers share it."""

    def __init__(self, limits: LogLimits) -> None:
        self._limits = limits
        self._used = 0
        self._hour_began = float("-inf")
        self._in_hour = 0

    def stored(self, size: int) -> None:
        """Counts what an earlier process has stored."""
        self._used += size

    def take(self, size: int, now: float) -> Cut | None:
        """Takes the bytes; returns the cut if they are too many."""
        if now - self._hour_began >= HOUR:
            self._hour_began, self._in_hour = now, 0
        if self._used + size > self._limits.bytes:
            limit = _megabytes(self._limits.bytes)
            return Cut(
                None, f"[fournos: the run printed more than {limit}; lines are left out up to the end]"
            )
        if self._in_hour + size > self._limits.bytes_per_hour:
            limit = _megabytes(self._limits.bytes_per_hour)
            return Cut(
                self._hour_began + HOUR,
                f"[fournos: the run printed more than {limit} within an hour; lines are left out here]",
            )
        self._used += size
        self._in_hour += size
        return None


class Memory:
    """Bounds the bytes of all lines that are not stored yet."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.used = 0

    @property
    def full(self) -> bool:
        return self.used >= self._most


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:g} MB"
