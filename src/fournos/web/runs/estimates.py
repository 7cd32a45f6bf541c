"""When a job starts and ends, in the words of `fournos explain` and `fournos estimate`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from fournos.api.phase import Phase
from fournos.client.errors import FournosError, RefusedError
from fournos.history.estimates.text import answer, sentence
from fournos.insight.values import phase_of
from fournos.web.runs.subject import JobSubject
from fournos.web.site import Call

_PATIENCE: Final = 2.0
"""Seconds that a page waits for an estimate."""
_FRESH: Final = 30.0
"""Seconds for which a page shows the same estimate."""

T = TypeVar("T")


async def of_spec(call: Call, spec: Mapping[str, Any], namespace: str) -> str:
    """Whether a job of this spec would start now, and when if not; "" without an answer of a history."""
    client = call.viewer.client
    asked = client.history.would_start(spec, queue=client.queue_name, namespace=namespace)
    try:
        start = await _soon(asked)
    except RefusedError as error:
        return f"No estimate: {error.message}"
    return answer(start, call.now) if start else ""


async def of_job(call: Call, about: JobSubject) -> str:
    """When a waiting job starts and ends; "" if it does not wait, or without an answer of a history."""
    if not about.live or phase_of(about.raw) != Phase.PENDING:
        return ""

    async def read() -> str:
        with suppress(RefusedError):
            found = await _soon(call.viewer.client.history.estimate(about.uid, namespace=about.namespace))
            return sentence(found.estimate, call.now) if found else ""
        return ""

    return await call.site.memo.get(("estimate", call.viewer.key, about.uid), _FRESH, read)


async def _soon(asked: Awaitable[T]) -> T | None:
    """Returns the answer; None after any error but RefusedError, and if it takes longer than `_PATIENCE`."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await asked
    except RefusedError:
        raise
    except (FournosError, TimeoutError, ValueError):  # ValueError: from a history of another version
        return None
