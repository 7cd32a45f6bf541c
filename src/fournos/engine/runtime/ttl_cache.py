"""A small cache whose entries end by time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SWEPT: Final = 60.0
"""Seconds between two looks for values that have ended."""


class TtlCache(Generic[K, V]):
    """Keeps at most `size` values, each for the seconds given with it."""

    def __init__(self, size: int, *, monotonic: Callable[[], float]) -> None:
        self._size = size
        self._monotonic = monotonic
        self._kept: dict[K, tuple[float, V]] = {}
        self._sweep_at = monotonic() + SWEPT

    def get(self, key: K) -> V | None:
        """Returns the value; None if there is none, or its time is over."""
        until, value = self._kept.get(key, (0.0, None))
        return value if self._monotonic() < until else None

    def put(self, key: K, value: V, seconds: float) -> V:
        """Keeps the value and returns it.  A full cache loses what has ended, then its oldest entry.

        What has ended leaves a cache that is not full, too, once a minute.
        """
        now = self._monotonic()
        self._kept.pop(key, None)
        if len(self._kept) >= self._size or now >= self._sweep_at:
            self._sweep_at = now + SWEPT
            self._kept = {one: entry for one, entry in self._kept.items() if entry[0] > now}
        while len(self._kept) >= self._size:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (now + seconds, value)
        return value
