"""Benchmarks: how all that is measured stands, open regressions first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from fournos.client.errors import NoHistoryError, NotAllowedError
from fournos.engine.kube.resource import Resource
from fournos.history.regressions.benchmark import Benchmark, in_order
from fournos.insight.errors import FournosError
from fournos.web.recorded_namespaces import recorded_namespaces
from fournos.web.routes import Call, Page
from fournos.web.runs.benchmark_rows import SHOWS, TITLES, benchmark_rows, tabs

RESOURCE: Final = Resource("history.fournos.dev", "v1", "Benchmark", "benchmarks")
"""What rules of the history's API name."""
_FRESH: Final = 30.0
"""Seconds for which the answers of the history are shown before they are asked for again."""


async def gather(call: Call) -> Mapping[str, Any]:
    owner = call.query.get("owner", "").strip()[:200]
    show = call.query.get("show", "")
    show = show if show in SHOWS else ""
    problem: FournosError | None = None
    benchmarks: list[Benchmark] = []
    try:
        benchmarks = await call.site.memo.get(
            ("benchmarks", call.viewer.csrf, owner), _FRESH, lambda: _read(call, owner)
        )
    except (NoHistoryError, NotAllowedError) as error:
        problem = error
    return {
        "rows": benchmark_rows(benchmarks, show),
        "tabs": tabs(benchmarks, show, owner),
        "total": len(benchmarks),
        "show": show,
        "owner": owner,
        "titles": TITLES,
        "problem": problem,
        "command": _command(show, owner),
    }


async def _read(call: Call, owner: str) -> list[Benchmark]:
    history, owners = call.viewer.client.history, (owner,) if owner else ()
    benchmarks: list[Benchmark] = []
    for namespace in await recorded_namespaces(call, RESOURCE):
        benchmarks += await history.benchmarks(*owners, everywhere=not namespace, namespace=namespace or None)
    return in_order(benchmarks)


def _command(show: str, owner: str) -> str:
    options = [*(["--show", show] if show else ()), *(["--owner", shlex.quote(owner)] if owner else ())]
    return " ".join(["fournos benchmarks", *options])


PAGE: Final = Page(name="benchmarks", title="Benchmarks", path="/benchmarks", gather=gather, shared=False)
