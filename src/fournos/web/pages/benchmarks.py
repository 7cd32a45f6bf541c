"""Benchmarks: how all that is measured stands, open regressions first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from fournos.client.errors import NoHistoryError, NotAllowedError
from fournos.history.regressions.benchmark import Benchmark
from fournos.insight.errors import FournosError
from fournos.web.recorded_benchmarks import recorded_benchmarks
from fournos.web.routes import Call, Page
from fournos.web.runs.benchmark_rows import SHOWS, TITLES, benchmark_rows, tabs


async def gather(call: Call) -> Mapping[str, Any]:
    owner = call.query.get("owner", "").strip()[:200]
    show = call.query.get("show", "")
    show = show if show in SHOWS else ""
    problem: FournosError | None = None
    benchmarks: list[Benchmark] = []
    try:
        benchmarks = await recorded_benchmarks(call, owner)
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


def _command(show: str, owner: str) -> str:
    options = [*(["--show", show] if show else ()), *(["--owner", shlex.quote(owner)] if owner else ())]
    return " ".join(["fournos benchmarks", *options])


PAGE: Final = Page(name="benchmarks", title="Benchmarks", path="/benchmarks", gather=gather, shared=False)
