"""A clock that is the (virtual) time of the event loop, with a wall clock that can be stepped."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2030, 1, 1, tzinfo=UTC)


class LoopClock:
    def __init__(self) -> None:
        self._offset = timedelta()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic()) + self._offset

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def step(self, by: timedelta) -> None:
        """Sets the wall clock."""
        self._offset += by
