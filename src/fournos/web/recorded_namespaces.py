"""The namespaces whose runs a person may read from the history.

Requests for all namespaces need a right in all of them: the API server checks it before it forwards one.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.insight.facts import everywhere
from fournos.insight.snapshots import namespaces
from fournos.insight.source import or_error
from fournos.web.routes import Call
from fournos.web.viewer import allowed_in

RUNS: Final = Resource("history.fournos.dev", "v1", "Run", "runs")
"""What rules of the history's API name; no API server has it."""
_MOST: Final = 50
"""Namespaces that are read at most."""


async def recorded_namespaces(call: Call, resource: Resource = RUNS) -> tuple[str, ...]:
    """Returns ("",) for all namespaces, else those that the person may read: of those with jobs or a queue.

    Without any right the result is the namespace of the jobs that the person can read, else (""): the
    request for that namespace then returns the reason of the refusal.
    """
    if call.site.jobs_namespace:
        return (call.site.jobs_namespace,)
    may, caches = call.viewer.rights.may, call.site.caches
    if await may("list", resource):
        return ("",)
    spaces = caches.namespaces(FOURNOS_JOB) | caches.namespaces(LOCAL_QUEUE)
    allowed = await allowed_in(partial(may, "list", resource), spaces)
    return tuple(allowed[:_MOST]) or (await _seen(call),)


async def _seen(call: Call) -> str:
    found = await or_error(everywhere(call.viewer.source, FOURNOS_JOB, ""))
    return "" if isinstance(found, KubeError) else min(namespaces(found), default="")


async def home(call: Call) -> str:
    """The namespace of a run that is named without one: the default one, if the person may read it."""
    own, spaces = call.viewer.client.namespace, await recorded_namespaces(call)
    return own if spaces == ("",) or own in spaces else spaces[0]
