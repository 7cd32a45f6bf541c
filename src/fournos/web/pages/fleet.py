"""The fleet: the clusters with their GPUs, locks and health, who runs where, and who waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.insight import overview
from fournos.web.routes import Call, Page


async def gather(call: Call) -> Mapping[str, Any]:
    site = call.site
    found = await overview.read(call.viewer.source, site.jobs_namespace, site.clusters_namespace, call.now)
    used = sum(gpu.used for cluster in found.clusters for gpu in cluster.gpus)
    total = sum(gpu.total for cluster in found.clusters for gpu in cluster.gpus)
    return {"overview": found, "used": used, "total": total}


PAGE: Final = Page(
    name="fleet",
    title="Fleet",
    path="/",
    gather=gather,
    watched=(*overview.KINDS, FOURNOS_CLUSTER),
    command="fournos top",
)
