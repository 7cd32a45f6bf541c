"""Repeats requests to the history that fail for now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fournos.engine.kube.errors import ConnectionLostError, ServerError
from fournos.engine.kube.transport import Backoff

T = TypeVar("T")
PATIENCE: Final = 15.0
"""Seconds for which a read of the history is repeated while its store does not answer."""


async def repeated(
    call: Callable[[], Awaitable[T]],
    *,
    seconds: float,
    pause: float = 1.0,
    when: Callable[[ServerError | ConnectionLostError], bool] = lambda error: True,
) -> T:
    """Repeats a request that fails for now, with growing pauses; after these seconds its error is raised.

    An error for which `when` returns False is raised at once.
    """
    now = asyncio.get_running_loop().time
    until = now() + seconds
    backoff = Backoff(base=pause)
    while True:
        try:
            return await call()
        except (ServerError, ConnectionLostError) as error:
            wait = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
            if not when(error) or now() + wait > until:
                raise
        await asyncio.sleep(wait)
