"""The controller of ResourceFlavors and the ClusterQueue.

It has one key only, so there is one writer and two passes never overwrite each other's quotas.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.api.slots import CLUSTER_NODE_LABEL, SLOT_RESOURCE
from fournos.engine.kube.resource import Key, Obj, absent, key_of, uid_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from fournos.engine.runtime.controller import Caches, Controller, Watch, pick
from fournos.engine.runtime.decision import (
    Absent,
    Create,
    Decision,
    Delete,
    EventRecord,
    Facts,
    LiveGet,
    Patch,
    Step,
)
from fournos.systems.clusters import build
from fournos.systems.clusters.observe import project_flavor, project_queue, queue_of
from fournos.systems.clusters.quotas import (
    PlannerInput,
    amount,
    closing_taints,
    covered_elsewhere,
    fits,
    is_managed,
    is_opening,
    is_resource,
    number,
    planner_input,
    quota_group,
    taints_of,
)
from fournos.systems.clusters.settings import ClusterSettings

# --- the plan ------------------------------------------------------------------------------------------
# What people added there stays as it is. Their flavors only get a quota of 0 for new resources, because
# Kueue requires every flavor of a group to list all covered resources.


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that bring Kueue's objects to the wanted state."""

    create: tuple[Obj, ...] = ()
    """ResourceFlavors to create."""
    taint: tuple[tuple[Obj, Sequence[Obj]], ...] = ()
    """ResourceFlavors whose taints differ, each with the wanted taints."""
    queue: Obj | None = None
    """Merge patch of the ClusterQueue, with its resourceVersion as precondition; None if nothing changes."""
    delete: tuple[Obj, ...] = ()
    """ResourceFlavors to delete after the queue no longer names them."""


def plan(inputs: Iterable[PlannerInput], flavors: Iterable[Obj], queue: Obj | None, *, prefix: str) -> Plan:
    """Returns the plan.

    `prefix` is the prefix of GPU resource names. `queue` is None while there is no ClusterQueue.
    """
    return _Planner(inputs, flavors, queue, prefix).plan()


class _Planner:
    def __init__(
        self, inputs: Iterable[PlannerInput], flavors: Iterable[Obj], queue: Obj | None, prefix: str
    ) -> None:
        self.flavors = {flavor["metadata"]["name"]: flavor for flavor in flavors}
        self.queue = queue
        self.prefix = prefix
        everyone = sorted(inputs, key=lambda cluster: cluster.name)
        # A flavor without our label belongs to a person, so its cluster is not planned.
        owned = [
            cluster
            for cluster in everyone
            if cluster.name not in self.flavors or is_managed(self.flavors[cluster.name])
        ]
        self.clusters = {cluster.name: self._with_names(cluster) for cluster in owned if not cluster.removing}
        cluster_names = {cluster.name for cluster in everyone}
        self.gone = {cluster.name for cluster in owned if cluster.removing} | {
            name for name, flavor in self.flavors.items() if is_managed(flavor) and name not in cluster_names
        }

    def _with_names(self, cluster: PlannerInput) -> PlannerInput:
        """Returns the cluster without GPUs whose names form no valid resource name.

        Kueue refuses the whole ClusterQueue for a single invalid name.
        """
        named = {short: n for short, n in cluster.gpus.items() if is_resource(self.prefix + short)}
        return cluster if len(named) == len(cluster.gpus) else replace(cluster, gpus=named)

    def plan(self) -> Plan:
        create, taint = self._flavors()
        return Plan(
            create=create,
            taint=taint,
            queue=self._queue_patch(self.queue) if self.queue is not None else None,
            delete=tuple(
                flavor
                for name, flavor in sorted(self.flavors.items())
                if name in self.gone and not flavor["metadata"].get("deletionTimestamp")
            ),
        )

    # --- flavors -----------------------------------------------------------------------------------

    def _flavors(self) -> tuple[tuple[Obj, ...], tuple[tuple[Obj, Sequence[Obj]], ...]]:
        create, taint = [], []
        for name, cluster in self.clusters.items():
            existing = self.flavors.get(name)
            if existing is None:
                create.append(flavor_of(cluster))
                continue
            wanted = taints_of(cluster, existing)
            if wanted != ((existing.get("spec") or {}).get("nodeTaints") or []):
                taint.append((existing, wanted))
        return tuple(create), tuple(taint)

    # --- the queue ---------------------------------------------------------------------------------

    def _queue_patch(self, queue: Obj) -> Obj | None:
        """Returns the patch of the ClusterQueue, or None if it is as planned."""
        groups: list[dict[str, Any]] = [dict(group) for group in queue["spec"].get("resourceGroups") or ()]
        index = quota_group(groups, self.prefix)
        if index is None:
            if not self.clusters:
                return None
            groups.append({"coveredResources": [], "flavors": []})
            index = len(groups) - 1
        after, now_added = self._group(
            groups[index], _added_resources(queue), covered_elsewhere(groups, index)
        )
        if after["flavors"]:
            groups[index] = after
        else:
            del groups[index]
        annotation = json.dumps(sorted(now_added)) if now_added else None
        meta = queue["metadata"]
        old_annotation = (meta.get("annotations") or {}).get(build.RESOURCES_ANNOTATION)
        if groups == list(queue["spec"].get("resourceGroups") or ()) and annotation == old_annotation:
            return None
        return {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "annotations": {build.RESOURCES_ANNOTATION: annotation},
            },
            "spec": {"resourceGroups": groups},
        }

    def _group(
        self, before: Mapping[str, Any], added: frozenset[str], elsewhere: set[str]
    ) -> tuple[dict[str, Any], frozenset[str]]:
        """Returns the resource group with the planned quotas, and the resources that clusters added to it."""
        entries = {entry["name"]: entry for entry in before["flavors"] if entry["name"] not in self.gone}
        resources = self._kept_resources(before, entries, added)
        had = set(resources)
        self._room_for(entries, resources, elsewhere)
        flavors = [
            {**entry, "resources": self._quotas(name, entry, resources)} for name, entry in entries.items()
        ]
        now_added = (added & set(resources)) | (set(resources) - had)
        return {**before, "coveredResources": resources, "flavors": flavors}, frozenset(now_added)

    def _kept_resources(
        self, before: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]], added: frozenset[str]
    ) -> list[str]:
        """Returns the covered resources to keep.

        A resource is dropped only if a cluster added it, no cluster has it now, and no other flavor has a
        quota for it.
        """
        needed = {self.prefix + short for cluster in self.clusters.values() for short in cluster.gpus}
        needed |= {SLOT_RESOURCE} if self.clusters else set()

        def used(resource: str) -> bool:
            others = (entry for name, entry in entries.items() if name not in self.clusters)
            return any(_quota(entry, resource) for entry in others)

        return [r for r in before["coveredResources"] if r in needed or r not in added or used(r)]

    def _room_for(self, entries: dict[str, Any], resources: list[str], elsewhere: set[str]) -> None:
        """Adds missing flavors and resources within Kueue's limits.

        Slots come before GPUs, and clusters that are already in the queue come before new ones.
        """
        order = sorted(self.clusters, key=lambda name: (name not in entries, name))
        if order and SLOT_RESOURCE not in resources and fits(len(entries), len(resources) + 1):
            resources.append(SLOT_RESOURCE)
        for name in order:
            if name in entries or fits(len(entries) + 1, len(resources)):
                entries.setdefault(name, {"name": name, "resources": []})
        for name in order:
            if name not in entries:
                continue
            for resource in sorted(self.prefix + short for short in self.clusters[name].gpus):
                known = resource in resources or resource in elsewhere
                if not known and fits(len(entries), len(resources) + 1):
                    resources.append(resource)

    def _quotas(
        self, name: str, entry: Mapping[str, Any], resources: Sequence[str]
    ) -> list[Mapping[str, Any]]:
        """Returns the quotas of one flavor, in the order of `resources`, as Kueue's webhook requires."""
        old = {quota["name"]: quota for quota in entry["resources"]}
        cluster = self.clusters.get(name)
        opening = cluster is not None and is_opening(cluster, self.flavors.get(name))
        result = []
        for resource in resources:
            quota = old.get(resource) or {"name": resource, "nominalQuota": "0"}
            planned = amount(cluster, resource, self.prefix) if cluster else None
            # The slots follow in the pass that sees the flavor without its taint.
            unchanged = opening and resource == SLOT_RESOURCE
            if not unchanged and planned is not None and number(quota["nominalQuota"]) != planned:
                quota = {**quota, "nominalQuota": str(planned)}
            result.append(quota)
        return result


def flavor_of(cluster: PlannerInput) -> Obj:
    """Returns the ResourceFlavor of a cluster that has none yet."""
    spec: dict[str, Any] = {"nodeLabels": {CLUSTER_NODE_LABEL: cluster.name}}
    if cluster.closed:
        spec["nodeTaints"] = closing_taints(cluster)
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {
            "name": cluster.name,
            "labels": {build.MANAGED_BY_LABEL: build.MANAGED_BY, CLUSTER_NODE_LABEL: cluster.name},
        },
        "spec": spec,
    }


def _quota(entry: Mapping[str, Any], resource: str) -> bool:
    """True if the flavor has a quota other than 0 for the resource."""
    return any(quota["name"] == resource and number(quota["nominalQuota"]) for quota in entry["resources"])


def _added_resources(queue: Obj) -> frozenset[str]:
    """Returns the resources that the annotation of the ClusterQueue lists; empty if it cannot be parsed."""
    text = (queue["metadata"].get("annotations") or {}).get(build.RESOURCES_ANNOTATION)
    try:
        added = json.loads(text) if text else []
    except ValueError:
        return frozenset()
    return (
        frozenset(name for name in added if isinstance(name, str)) if isinstance(added, list) else frozenset()
    )


# --- the controller ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuotaInputs:
    """All FournosClusters together with Kueue's objects for them."""

    key: Key
    clusters: tuple[Obj, ...]
    """The FournosClusters, projected."""
    flavors: tuple[Obj, ...]
    queue: Obj | None


def decide(observed: QuotaInputs, facts: Facts, now: datetime, *, settings: ClusterSettings) -> Decision:
    """Returns the writes that bring ResourceFlavors and the ClusterQueue to the plan. A pure function.

    A flavor is created before the queue names it, and deleted only after the queue no longer names it.
    """
    if facts.failure is not None and facts.failure.transient:
        return Decision(retry=True)
    inputs = tuple(map(_input, observed.clusters))
    cluster_names = {cluster.name for cluster in inputs}
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
    planned = plan(inputs, observed.flavors, observed.queue, prefix=settings.gpu_resource_prefix)
    steps: list[Step] = [
        Create(RESOURCE_FLAVOR, flavor, own_label=build.MANAGED_BY_LABEL) for flavor in planned.create
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
    # About the FournosClusters: of the ClusterQueue, which has no namespace, events go where no right is.
    events = tuple(
        EventRecord("Warning", "QuotaRefused", text, about=(FOURNOS_CLUSTER, cluster))
        for cluster in observed.clusters
    )
    rest = tuple(step for step in steps if step != refused.step)
    if isinstance(refused.step, Patch) and refused.step.resource is CLUSTER_QUEUE:
        rest = ()  # the queue still names these flavors, so none may be deleted
    return Decision(rest, events=events, retry=True)


def queue_controller(settings: ClusterSettings) -> Controller[QuotaInputs]:
    """Returns the controller; its single key is the ClusterQueue of the settings."""
    key = Key("", settings.kueue_cluster_queue_name)

    def observe(caches: Caches, requested: Key) -> QuotaInputs | None:
        if requested != key:
            return None
        return QuotaInputs(
            key, tuple(caches[FOURNOS_CLUSTER]), tuple(caches[RESOURCE_FLAVOR]), queue_of(caches, settings)
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
