"""Reads the Workloads, pods and wrapped resources of an AppWrapper from a source."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import POD, Key, Obj, controls, key_of
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.workload import WORKLOAD
from fournos.insight.appwrapper_reasons import WrapperMembers, explain
from fournos.insight.explanation import Explanation
from fournos.insight.facts import queue_facts
from fournos.insight.source import Source
from fournos.insight.values import spec_of, status_of
from fournos.systems.appwrappers.kinds import resource_of
from fournos.systems.appwrappers.names import LABEL


async def members(source: Source, wrapper: Obj) -> WrapperMembers:
    """Returns the dependents of the AppWrapper.

    A kind that is not installed, or that RBAC does not let us read, counts as having no objects.
    """
    namespace, name = key_of(wrapper)

    async def listed(resource: Any, selector: str) -> list[Obj]:
        try:
            return (await source.list(resource, namespace=namespace, selector=selector)).items
        except (NoSuchResourceError, ForbiddenError):
            return []

    components: dict[int, Obj] = {}
    for index, status in enumerate(status_of(wrapper).get("componentStatus") or ()):
        if status.get("name"):
            resource = resource_of(spec_of(wrapper)["components"][index]["template"])
            try:
                live = await source.get(resource, Key(namespace, status["name"]))
            except (NotFoundError, NoSuchResourceError, ForbiddenError):
                continue
            if controls(wrapper, live):
                components[index] = live
    return WrapperMembers(
        workloads=tuple(one for one in await listed(WORKLOAD, "") if controls(wrapper, one)),
        pods=tuple(await listed(POD, f"{LABEL}={name}")),
        components=components,
    )


async def explained(source: Source, wrapper: Obj, now: datetime) -> tuple[Explanation, WrapperMembers]:
    """Explains why the AppWrapper waits, is reset or has failed; also returns its dependents."""
    dependents = await members(source, wrapper)
    queue = queue_name(wrapper)
    facts = await queue_facts(source, wrapper, queue) if queue else None
    return explain(wrapper, dependents, facts, now), dependents
