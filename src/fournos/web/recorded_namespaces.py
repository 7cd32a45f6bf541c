"""The namespaces whose runs a person may read from the history.

Requests for all namespaces need a right in all of them: the API server checks it before it forwards one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.insight.facts import everywhere
from fournos.insight.source import or_error
from fournos.kube.errors import KubeError
from fournos.kube.resource import Resource, key_of
from fournos.queueing.kinds import LOCAL_QUEUE
from fournos.web.routes import Call

RUNS: Final = Resource("history.fournos.dev", "v1", "Run", "runs")
"""What rules of the history's API name."""
_MOST: Final = 50
"""Namespaces that are read one after the other at most."""


async def recorded_namespaces(call: Call, resource: Resource = RUNS) -> tuple[str, ...]:
    """Returns ("",) for all namespaces, else those that the person may read, as far as they are visible.

    These are the namespaces with jobs or LocalQueues; a person without the right everywhere sees no run of a
    namespace that has neither.  Without any right the result is ("",), too: that request has the reason.
    """
    if call.site.jobs_namespace:
        return (call.site.jobs_namespace,)
    if await call.viewer.rights.may("list", resource):
        return ("",)
    spaces: set[str] = set()
    for kind in (FOURNOS_JOB, LOCAL_QUEUE):
        found = await or_error(everywhere(call.viewer.source, kind, ""))
        spaces |= set() if isinstance(found, KubeError) else {key_of(one).namespace for one in found}
    wanted = sorted(spaces)[:_MOST]
    rights = await asyncio.gather(*(call.viewer.rights.may("list", resource, one) for one in wanted))
    return tuple(one for one, right in zip(wanted, rights, strict=True) if right) or ("",)
