"""Health: what of the cluster, its configuration and the person's rights is not as it must be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from fournos.insight.doctor.examine import examine
from fournos.insight.doctor.facts import DoctorFacts, DoctorServer, ExaminedNamespaces
from fournos.insight.doctor.facts import gather as gather_facts
from fournos.insight.doctor.finding import Level, faults
from fournos.web.routes import Call, Page

_FRESH: Final = 15.0
"""Seconds for which an examination is shown before the next one: it takes about a hundred requests."""


async def gather(call: Call) -> Mapping[str, Any]:
    client = call.viewer.client
    place = ExaminedNamespaces(
        call.site.jobs_namespace or client.namespace, call.site.clusters_namespace, client.queue_name
    )

    async def examined() -> DoctorFacts:
        # Clocks are compared with this machine's own.
        return await gather_facts(cast(DoctorServer, client.api), place, now=lambda: datetime.now(UTC))

    facts = await call.site.memo.get(("health", call.viewer.csrf), _FRESH, examined)
    findings = examine(facts, call.now)
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
