"""Sets the condition QuotaSynced: the state of one cluster's quota in Kueue.

It reads only this cluster, its flavor and its entry in the ClusterQueue, never the other clusters. The cost
of a pass therefore does not depend on the number of clusters, and a change of another cluster changes no
status here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.api.slots import SLOT_RESOURCE
from fournos.engine.kube.resource import Obj
from fournos.systems.clusters.planner_inputs import PlannerInput
from fournos.systems.clusters.quotas import (
    MAX_FLAVORS,
    MAX_QUOTAS,
    amount,
    covered_elsewhere,
    fits,
    in_use,
    is_managed,
    is_resource,
    number,
    quota_group,
    taints_of,
)

NO_QUEUE: Final = "NoClusterQueue"
PENDING: Final = "Pending"
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Sync:
    """Status, reason and message of the condition."""

    status: str
    reason: str
    message: str


def quota_synced(cluster: PlannerInput, flavor: Obj | None, queue: Obj | None, *, prefix: str) -> Sync:
    """Returns the condition.

    `flavor` is the ResourceFlavor with the cluster's name. `prefix` is the prefix of GPU resource names.
    """
    if flavor is not None and not is_managed(flavor):
        text = f"ResourceFlavor {cluster.name} was made by somebody else: it and its quotas stay as they are"
        return Sync("False", "ForeignFlavor", text)
    if queue is None:
        return Sync("False", NO_QUEUE, "there is no ClusterQueue to give it quota")
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    index = quota_group(groups, prefix)
    group = groups[index] if index is not None else {"coveredResources": (), "flavors": ()}
    entry = next((entry for entry in group["flavors"] if entry["name"] == cluster.name), None)
    gpus = {prefix + short for short in cluster.gpus}
    named = {name for name in gpus if is_resource(name)}
    covered = {*group["coveredResources"], *covered_elsewhere(groups, index)}
    missing = sorted({SLOT_RESOURCE, *named} - covered, key=lambda name: (name != SLOT_RESOURCE, name))
    if full := _full(group, missing, there=entry is not None):
        return Sync("False", "LimitReached", full)
    if flavor is None or entry is None or missing or not _as_wanted(cluster, flavor, entry, prefix):
        return Sync("False", PENDING, "the ClusterQueue has yet to be brought up to date")
    if flavor["metadata"].get("deletionTimestamp"):
        text = f"somebody deleted ResourceFlavor {cluster.name}; it is made again when it is gone"
        return Sync("False", "FlavorTerminating", text)
    if odd := sorted(gpus - named):
        text = f"no resource can be named {odd[0][:_SHOWN]}: it gets no quota, the rest has"
        return Sync("False", "ResourceNameInvalid", text)
    return _synced(cluster, entry, in_use(queue))


def _full(group: Mapping[str, Any], missing: list[str], *, there: bool) -> str:
    """Returns the message if Kueue's limits leave out the cluster or one of its resources; else empty."""
    flavors, resources = len(group["flavors"]) + (not there), len(group["coveredResources"])
    if not there and not fits(flavors, resources):
        return f"the ClusterQueue is full: {MAX_FLAVORS} flavors, {MAX_QUOTAS} quotas"
    if missing and not fits(flavors, resources + 1):
        return f"the ClusterQueue is full: no room for {missing[0]} ({MAX_QUOTAS} quotas)"
    return ""


def _as_wanted(cluster: PlannerInput, flavor: Obj, entry: Mapping[str, Any], prefix: str) -> bool:
    """True if the entry's quotas and the flavor's taints are as planned."""
    quotas = {quota["name"]: number(quota["nominalQuota"]) for quota in entry["resources"]}
    wanted = {name: amount(cluster, name, prefix) for name in quotas}
    same = all(found == wanted[name] for name, found in quotas.items() if wanted[name] is not None)
    return same and taints_of(cluster, flavor) == ((flavor.get("spec") or {}).get("nodeTaints") or [])


def _synced(cluster: PlannerInput, entry: Mapping[str, Any], used: Mapping[tuple[str, str], int]) -> Sync:
    above = [
        f"{taken} of {quota['name']} in use, quota {quota['nominalQuota']}"
        for quota in entry["resources"]
        if (taken := used.get((cluster.name, quota["name"]), 0)) > number(quota["nominalQuota"])
    ]
    if above:
        return Sync("True", "BelowUse", "fewer than are in use; jobs that run go on: " + ", ".join(above))
    if cluster.closed:
        return Sync("True", "Closed", f"takes no jobs: {cluster.closed}")
    return Sync("True", "Synced", "the ClusterQueue has its quotas")
