"""Bounds the memory and the time of the bodies of requests: of all together, of each caller, of each run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from aiohttp import web

from fournos.history.api.errors import RequestTimeoutError, TooManyRequestsError

BYTES: Final = 128 * 2**20
"""Bytes of all bodies together: a quarter of the shipped memory limit."""
OF_CALLER: Final = BYTES // 2
"""Bytes of the bodies of one caller.  All tasks of a namespace may be one: they share a ServiceAccount."""
OF_RUN: Final = BYTES // 4
"""Bytes of the bodies for one run."""
SLOW: Final = 60.0
"""Seconds that a body may take, ..."""
RATE: Final = 500_000
"""... beside a second for each so many bytes of it."""
_LATER: Final = 5
_TOO_MUCH: Final = {
    "all": "the history receives as much as it can now; send it again later",
    "caller": "too much is being sent with this account now; send it again later",
    "run": "too much is being sent for this run now; send it again later",
}


class Bodies:
    """Counts the memory of the bodies that are being received."""

    def __init__(self, most: int = BYTES, *, of_caller: int = OF_CALLER, of_run: int = OF_RUN) -> None:
        self._most = {"all": most, "caller": of_caller, "run": of_run}
        self._held: Counter[tuple[str, str]] = Counter()
        """Bytes by what is bounded, and its name."""

    @asynccontextmanager
    async def receiving(
        self, request: web.Request, caller: str, *, held: int, run: str = ""
    ) -> AsyncIterator[None]:
        """Receives a body of which at most `held` bytes are in memory at once.

        `run`: for which it is; "" for none.
        Raises TooManyRequestsError without room for it, and RequestTimeoutError if it does not come in time.
        """
        size = request.content_length
        if size is None:  # sent in chunks
            size = held if request.body_exists else 0
        count = min(size, held)
        bounds = [("all", ""), ("caller", caller), *([("run", run)] if run else ())]
        for bound in bounds:
            if self._held[bound] + count > self._most[bound[0]]:
                raise TooManyRequestsError(_TOO_MUCH[bound[0]], retry_after=_LATER)
        self._held.update(dict.fromkeys(bounds, count))
        try:
            async with asyncio.timeout(SLOW + size / RATE) as timer:
                request.content.on_eof(partial(_arrived, timer))
                yield
        except TimeoutError:
            if timer.expired():
                raise RequestTimeoutError("the request did not come in time; send it again") from None
            raise
        finally:
            self._held.subtract(dict.fromkeys(bounds, count))
            for bound in bounds:
                if not self._held[bound]:
                    del self._held[bound]


def _arrived(timer: asyncio.Timeout) -> None:
    with suppress(RuntimeError):  # the time is over
        timer.reschedule(None)
