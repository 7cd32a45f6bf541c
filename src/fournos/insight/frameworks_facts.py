"""Reads the facts that explain why an object of a configured kind waits."""

from __future__ import annotations

from contextlib import suppress

from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError
from fournos.engine.kube.resource import Obj, controller_of, key_of, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.workload import WORKLOAD
from fournos.insight.facts import queue_facts
from fournos.insight.frameworks_reasons import FrameworkFacts
from fournos.insight.source import Source
from fournos.insight.values import name_of
from fournos.systems.frameworks.kinds import Framework


async def gather(source: Source, framework: Framework, obj: Obj) -> FrameworkFacts:
    """Reads the Workloads of the object, all Workloads of its namespace and the facts of its queue."""
    inputs: list[Obj] = []
    with suppress(NoSuchResourceError, ForbiddenError):  # the queue's facts explain this error better
        inputs = (await source.list(WORKLOAD, namespace=key_of(obj).namespace)).items
    uid, prebuilt, queue = uid_of(obj), prebuilt_name(obj), queue_name(obj)
    own = [one for one in inputs if (controller_of(one) or {}).get("uid") == uid or name_of(one) == prebuilt]
    return FrameworkFacts(
        framework,
        obj,
        tuple(own),
        tuple(inputs),
        await queue_facts(source, obj, queue) if queue else None,
    )
