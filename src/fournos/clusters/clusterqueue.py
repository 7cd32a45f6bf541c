"""The system that writes ResourceFlavors and the ClusterQueue: one key, so one writer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from fournos.clusters import names
from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.clusters.observe import project_flavor, project_queue, queue_of
from fournos.clusters.planner import plan
from fournos.clusters.planner_inputs import PlannerInput, planner_input
from fournos.clusters.quota_synced import PENDING, quota_synced
from fournos.clusters.quotas import ours
from fournos.clusters.settings import ClusterSettings
from fournos.kube.resource import Key, Obj, key_of, uid_of
from fournos.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from fournos.runtime.controller import Caches, Controller, Watch
from fournos.runtime.decision import Absent, Decision, EventRecord, Facts, LiveGet
from fournos.runtime.projection import pick
from fournos.runtime.steps import Create, Delete, Patch, Step


@dataclass(frozen=True, slots=True)
class Fleet:
    """All clusters, and what Kueue has of them."""

    key: Key
    inputs: tuple[PlannerInput, ...]
    flavors: tuple[Obj, ...]
    queue: Obj | None
    clusters: tuple[Obj, ...] = ()
    """The FournosClusters themselves, which events are about: they have a namespace, and a right there."""


def decide(seen: Fleet, facts: Facts, now: datetime, *, settings: ClusterSettings) -> Decision:
    """Pure.  Flavors come before the queue names them and go after it does not any more."""
    if facts.failure is not None and facts.failure.transient:
        return Decision(retry=True)
    known = {cluster.name for cluster in seen.inputs}
    orphans = [f["metadata"]["name"] for f in seen.flavors if ours(f) and f["metadata"]["name"] not in known]
    answers = facts.require_all(LiveGet(FOURNOS_CLUSTER, Key(settings.namespace, name)) for name in orphans)
    # Only what the API server itself denies is gone; of the others we know too little to touch them.
    if not all(isinstance(answer, Absent) and not answer.no_kind for answer in answers):
        return Decision(retry=True)
    wanted = plan(seen.inputs, seen.flavors, seen.queue, prefix=settings.gpu_resource_prefix)
    steps: list[Step] = [
        Create(RESOURCE_FLAVOR, flavor, own_label=names.MANAGED_BY_LABEL) for flavor in wanted.create
    ]
    for flavor, taints in wanted.taint:
        version = flavor["metadata"]["resourceVersion"]
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": version},
            "spec": {"nodeTaints": list(taints) or None},
        }
        steps.append(Patch(RESOURCE_FLAVOR, key_of(flavor), body))
    if wanted.queue is not None:
        steps.append(Patch(CLUSTER_QUEUE, seen.key, wanted.queue))
    steps += [Delete(RESOURCE_FLAVOR, key_of(flavor), uid_of(flavor)) for flavor in wanted.delete]
    refused = facts.failure
    if refused is None:
        return Decision(tuple(steps))
    text = f"{type(refused.step).__name__} was refused: {refused.message}"[:1024]
    waiting = _waiting(seen, prefix=settings.gpu_resource_prefix)
    events = tuple(
        EventRecord("Warning", "QuotaRefused", text, about=(FOURNOS_CLUSTER, cluster))
        for cluster in seen.clusters
        if cluster["metadata"]["name"] in waiting or not waiting
    )
    rest = tuple(step for step in steps if step != refused.step)
    if isinstance(refused.step, Patch) and refused.step.resource is CLUSTER_QUEUE:
        rest = ()  # flavors that the queue still names must stay
    return Decision(rest, events=events, retry=True)


def _waiting(seen: Fleet, *, prefix: str) -> frozenset[str]:
    """The clusters whose quotas are not in the queue yet."""
    flavors = {flavor["metadata"]["name"]: flavor for flavor in seen.flavors}
    return frozenset(
        one.name
        for one in seen.inputs
        if not one.removing
        and quota_synced(one, flavors.get(one.name), seen.queue, prefix=prefix).reason == PENDING
    )


def queue_controller(settings: ClusterSettings) -> Controller[Fleet]:
    key = Key("", settings.kueue_cluster_queue_name)

    def observe(caches: Caches, asked: Key) -> Fleet | None:
        if asked != key:
            return None
        return Fleet(
            key,
            tuple(_input(cluster) for cluster in caches[FOURNOS_CLUSTER]),
            tuple(caches[RESOURCE_FLAVOR]),
            queue_of(caches, settings),
            tuple(caches[FOURNOS_CLUSTER]),
        )

    def wakes(obj: Obj, caches: Caches) -> Iterable[Key]:
        return (key,)

    def primary(seen: Fleet) -> Obj:
        return seen.queue or {"metadata": {"namespace": "", "name": key.name, "uid": ""}}

    return Controller(
        name="cluster-queue",
        watches=(
            Watch(CLUSTER_QUEUE, wakes=wakes, project=project_queue, required=False),
            Watch(RESOURCE_FLAVOR, wakes=wakes, project=project_flavor, required=False),
            Watch(FOURNOS_CLUSTER, namespace=settings.namespace, wakes=wakes, project=_project_cluster),
        ),
        observe=observe,
        decide=partial(decide, settings=settings),
        primary=primary,
        collect=lambda caches: (key,),
    )


def _project_cluster(cluster: Obj) -> Obj:
    """What the plan reads, computed once for each change; a change of anything else makes no new plan."""
    identity = pick(cluster["metadata"], ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp"))
    return {"metadata": identity, "input": planner_input(cluster)}


def _input(projected: Obj) -> PlannerInput:
    """A cluster that the projection could not read is kept whole, and read again."""
    found = projected.get("input")
    return found if isinstance(found, PlannerInput) else planner_input(projected)
