"""How the benchmarks stand that a person may read: of all namespaces, in one answer for a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from fournos.client.errors import FournosError
from fournos.engine.kube.resource import Resource
from fournos.history.regressions.benchmark import FAILING, Benchmark, in_order
from fournos.web.recorded_namespaces import recorded_namespaces
from fournos.web.routes import Call
from fournos.web.viewer import allowed_in

RESOURCE: Final = Resource("history.fournos.dev", "v1", "Benchmark", "benchmarks")
"""What rules of the history's API name."""
_FRESH: Final = 30.0
"""Seconds for which the answers of the history are shown before they are asked for again."""
_PATIENCE: Final = 1.0
"""Seconds that a page waits for what stands beside its subject; later answers are in its next rendering."""


async def recorded_benchmarks(call: Call, owner: str = "") -> list[Benchmark]:
    """Returns the benchmarks, what asks for somebody first.  Raises FournosError."""
    return await _of(call, await _reach(call), owner)


async def failing_benchmarks(call: Call) -> list[Benchmark]:
    """Returns those with an open regression; none while the history does not answer at once.

    That it does not answer is kept for a while, too: a page that changes often does not ask each time.
    """
    reach = await _reach(call)

    async def read() -> list[Benchmark]:
        with suppress(FournosError):
            return [each for each in await _of(call, reach, "") if each.state in FAILING]
        return []

    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            return await call.site.memo.get(("failing benchmarks", reach), _FRESH, read)
    return []


class _Reach(NamedTuple):
    """Whose benchmarks a person reads; persons of the same reach share answers."""

    namespaces: tuple[str, ...]
    allowed: tuple[str, ...]
    """Those of them whose benchmarks the person may list: the history refuses the others."""


async def _reach(call: Call) -> _Reach:
    namespaces = await recorded_namespaces(call, RESOURCE)
    # Asked in each case: what a page asks decides who is shown the same page.
    allowed = await allowed_in(partial(call.viewer.rights.may, "list", RESOURCE), namespaces)
    return _Reach(namespaces, tuple(allowed))


async def _of(call: Call, reach: _Reach, owner: str) -> list[Benchmark]:
    async def read() -> list[Benchmark]:
        history, owners = call.viewer.client.history, (owner,) if owner else ()
        benchmarks: list[Benchmark] = []
        for namespace in reach.namespaces:
            benchmarks += await history.benchmarks(
                *owners, everywhere=not namespace, namespace=namespace or None
            )
        return in_order(benchmarks)

    return await call.site.memo.get(("benchmarks", reach, owner), _FRESH, read)
