"""The fleet: the clusters with their GPUs, locks and health, who runs where, and who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fournos.insight import fleet
from fournos.web.pages.benchmarks import benchmark_rows, failing_benchmarks
from fournos.web.site import Call, Page

ROWS: Final = 20
"""The jobs that each table shows; the page of all jobs has the others."""
REGRESSIONS: Final = 3
"""The benchmarks with an open regression that are shown; their page has all."""


async def gather(call: Call) -> Mapping[str, Any]:
    site = call.site
    now, failing = await asyncio.gather(
        fleet.read(call.viewer.source, site.jobs_namespace, site.clusters_namespace, call.now, most=ROWS),
        failing_benchmarks(call),
    )
    gpus = [gpu for cluster in now.clusters for gpu in cluster.gpus]
    waiting = len(now.waiting) + now.left_out - now.held
    return {
        "clusters": now.clusters,
        "running": now.running,
        "waiting": now.waiting,
        "left_out": now.left_out,
        "waits": f"{waiting} waiting" + (f", {now.held} held" if now.held else ""),
        "rows": ROWS,
        "regressions": failing,
        "failing": benchmark_rows(failing.value or (), "failing"),
        "most": REGRESSIONS,
        "used": sum(gpu.used for gpu in gpus),
        "total": sum(gpu.total for gpu in gpus),
    }


PAGE: Final = Page(
    name="fleet",
    title="Fleet",
    path="/",
    gather=gather,
    watched=fleet.KINDS,
    command="fournos list --phase active{jobs}",
)
