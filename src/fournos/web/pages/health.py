"""Health: what of the cluster, its configuration and the person's rights is not as it must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from fournos.insight.doctor import examine
from fournos.insight.doctor_access import (
    DoctorFinding,
    DoctorServer,
    ExaminedNamespaces,
    Level,
    faults,
)
from fournos.web.site import Call, Page

_FRESH: Final = 15.0
"""Seconds for which an examination is shown before the next one: it takes about a hundred requests."""


async def gather(call: Call) -> Mapping[str, Any]:
    client = call.viewer.client
    place = ExaminedNamespaces(
        call.site.jobs_namespace or client.namespace, call.site.clusters_namespace, client.queue_name
    )

    async def examined() -> list[DoctorFinding]:
        return await examine(cast(DoctorServer, client.api), place, call.now)

    findings = await call.site.memo.get(("health", call.viewer.key), _FRESH, examined)
    worst = [finding for finding in findings if finding.level in (Level.FAULT, Level.WARNING)]
    return {
        "faults": faults(findings),
        "warnings": sum(finding.level is Level.WARNING for finding in findings),
        "worst": sorted(worst, key=lambda finding: finding.level is not Level.FAULT),
        "others": [finding for finding in findings if finding not in worst],
        "watch_error": call.site.caches.watch_error,
    }


PAGE: Final = Page(
    name="health",
    title="Health",
    path="/health",
    gather=gather,
    shared=False,
    command="fournos doctor{jobs}",
)
