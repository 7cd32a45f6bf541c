"""How the benchmarks stand that a person may read: of all namespaces, in one answer for a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from fournos.client.errors import FournosError
from fournos.engine.kube.resource import Resource
from fournos.history.regressions.benchmark import FAILING, Benchmark, in_order
from fournos.web.recorded_namespaces import recorded_namespaces
from fournos.web.routes import Call

RESOURCE: Final = Resource("history.fournos.dev", "v1", "Benchmark", "benchmarks")
"""What rules of the history's API name."""
_FRESH: Final = 30.0
"""Seconds for which the answers of the history are shown before they are asked for again."""
_PATIENCE: Final = 1.0
"""Seconds that a page waits for what stands beside its subject; later answers are in its next rendering."""


async def recorded_benchmarks(call: Call, owner: str = "") -> list[Benchmark]:
    """Returns the benchmarks, what asks for somebody first.  Raises FournosError."""
    namespaces, rights = await _rights(call)

    async def read() -> list[Benchmark]:
        history, owners = call.viewer.client.history, (owner,) if owner else ()
        benchmarks: list[Benchmark] = []
        for namespace in namespaces:
            benchmarks += await history.benchmarks(
                *owners, everywhere=not namespace, namespace=namespace or None
            )
        return in_order(benchmarks)

    return await call.site.memo.get(("benchmarks", rights, namespaces, owner), _FRESH, read)


async def failing_benchmarks(call: Call) -> list[Benchmark]:
    """Returns those with an open regression; none while the history does not answer at once.

    That it does not answer is kept for a while, too: a page that changes often does not ask each time.
    """

    async def read() -> list[Benchmark]:
        with suppress(FournosError):
            return [each for each in await recorded_benchmarks(call) if each.state in FAILING]
        return []

    namespaces, rights = await _rights(call)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            return await call.site.memo.get(("failing benchmarks", rights, namespaces), _FRESH, read)
    return []


async def _rights(call: Call) -> tuple[tuple[str, ...], str]:
    """Returns the namespaces whose benchmarks the person may read, and the class of the person's rights.

    In this order: what was asked counts for the class, so that only persons with these rights share answers.
    """
    namespaces = await recorded_namespaces(call, RESOURCE)
    return namespaces, await call.viewer.rights.permission_class()
