"""The controller of ResourceFlavors and the ClusterQueue.

It has one key only, so there is one writer and two passes never overwrite each other's quotas.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import Key, Obj, absent, key_of, uid_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.engine.runtime.decision import Absent, Decision, EventRecord, Facts, LiveGet
from fournos.engine.runtime.projection import pick
from fournos.engine.runtime.steps import Create, Delete, Patch, Step
from fournos.systems.clusters import names
from fournos.systems.clusters.observe import project_flavor, project_queue, queue_of
from fournos.systems.clusters.planner import plan
from fournos.systems.clusters.planner_inputs import PlannerInput, planner_input
from fournos.systems.clusters.quota_synced import PENDING, quota_synced
from fournos.systems.clusters.quotas import is_managed
from fournos.systems.clusters.settings import ClusterSettings


@dataclass(frozen=True, slots=True)
class QuotaInputs:
    """All FournosClusters together with Kueue's objects for them."""

    key: Key
    inputs: tuple[PlannerInput, ...]
    flavors: tuple[Obj, ...]
    queue: Obj | None
    clusters: tuple[Obj, ...] = ()
    """The FournosClusters themselves.

    Events are recorded about them, because they are namespaced and the operator may create events in that
    namespace.
    """


def decide(observed: QuotaInputs, facts: Facts, now: datetime, *, settings: ClusterSettings) -> Decision:
    """Returns the writes that bring ResourceFlavors and the ClusterQueue to the plan. A pure function.

    A flavor is created before the queue names it, and deleted only after the queue no longer names it.
    """
    if facts.failure is not None and facts.failure.transient:
        return Decision(retry=True)
    cluster_names = {cluster.name for cluster in observed.inputs}
    orphans = [
        f["metadata"]["name"]
        for f in observed.flavors
        if is_managed(f) and f["metadata"]["name"] not in cluster_names
    ]
    # A live read, because the cache may not show a FournosCluster that was just created.
    answers = facts.require_all(LiveGet(FOURNOS_CLUSTER, Key(settings.namespace, name)) for name in orphans)
    # Only a 404 from the API server proves that the cluster is gone. After any other answer its flavor stays.
    if not all(isinstance(answer, Absent) and not answer.no_kind for answer in answers):
        return Decision(retry=True)
    planned = plan(observed.inputs, observed.flavors, observed.queue, prefix=settings.gpu_resource_prefix)
    steps: list[Step] = [
        Create(RESOURCE_FLAVOR, flavor, own_label=names.MANAGED_BY_LABEL) for flavor in planned.create
    ]
    for flavor, taints in planned.taint:
        # The precondition: a taint that a person added since this read must not be overwritten.
        version = flavor["metadata"]["resourceVersion"]
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": version},
            "spec": {"nodeTaints": list(taints) or None},
        }
        steps.append(Patch(RESOURCE_FLAVOR, key_of(flavor), body))
    if planned.queue is not None:
        steps.append(Patch(CLUSTER_QUEUE, observed.key, planned.queue))
    steps += [Delete(RESOURCE_FLAVOR, key_of(flavor), uid_of(flavor)) for flavor in planned.delete]
    refused = facts.failure
    if refused is None:
        return Decision(tuple(steps))
    text = f"{type(refused.step).__name__} was refused: {refused.message}"[:1024]
    waiting = _waiting(observed, prefix=settings.gpu_resource_prefix)
    events = tuple(
        EventRecord("Warning", "QuotaRefused", text, about=(FOURNOS_CLUSTER, cluster))
        for cluster in observed.clusters
        if cluster["metadata"]["name"] in waiting or not waiting
    )
    rest = tuple(step for step in steps if step != refused.step)
    if isinstance(refused.step, Patch) and refused.step.resource is CLUSTER_QUEUE:
        rest = ()  # the queue still names these flavors, so none may be deleted
    return Decision(rest, events=events, retry=True)


def _waiting(observed: QuotaInputs, *, prefix: str) -> frozenset[str]:
    """Returns the names of the clusters whose quotas are not in the ClusterQueue yet."""
    flavors = {flavor["metadata"]["name"]: flavor for flavor in observed.flavors}
    return frozenset(
        cluster.name
        for cluster in observed.inputs
        if not cluster.removing
        and quota_synced(cluster, flavors.get(cluster.name), observed.queue, prefix=prefix).reason == PENDING
    )


def queue_controller(settings: ClusterSettings) -> Controller[QuotaInputs]:
    """Returns the controller; its single key is the ClusterQueue of the settings."""
    key = Key("", settings.kueue_cluster_queue_name)

    def observe(caches: Caches, requested: Key) -> QuotaInputs | None:
        if requested != key:
            return None
        return QuotaInputs(
            key,
            tuple(_input(cluster) for cluster in caches[FOURNOS_CLUSTER]),
            tuple(caches[RESOURCE_FLAVOR]),
            queue_of(caches, settings),
            tuple(caches[FOURNOS_CLUSTER]),
        )

    def wakes(obj: Obj, caches: Caches) -> Iterable[Key]:
        return (key,)

    return Controller(
        name="cluster-queue",
        watches=(
            Watch(CLUSTER_QUEUE, wakes=wakes, project=project_queue, required=False),
            Watch(RESOURCE_FLAVOR, wakes=wakes, project=project_flavor, required=False),
            Watch(FOURNOS_CLUSTER, namespace=settings.namespace, wakes=wakes, project=_project_cluster),
        ),
        observe=observe,
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.queue or absent(key),
        collect=lambda caches: (key,),
    )


def _project_cluster(cluster: Obj) -> Obj:
    """Returns the metadata and the planner's input, computed once per change.

    A change of any other field does not change the projection and therefore triggers no reconcile.
    """
    identity = pick(cluster["metadata"], ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp"))
    return {"metadata": identity, "input": planner_input(cluster)}


def _input(projected: Obj) -> PlannerInput:
    """Returns the planner's input.

    An object that the projection could not process is cached in full, so its input is computed here.
    """
    found = projected.get("input")
    return found if isinstance(found, PlannerInput) else planner_input(projected)
