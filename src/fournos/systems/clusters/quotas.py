"""Computes a cluster's quotas in the ClusterQueue, and checks them against Kueue's limits.

Kueue's rules (its ClusterQueue webhook and CRD): at most 64 flavors and 64 resources per group, 512 quotas
per group; the resources of a flavor stand in the order of coveredResources and name all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, Final

from fournos.api.fournoscluster import LockState
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.slots import SLOT_RESOURCE, SLOTS_PER_CLUSTER, UNAVAILABLE_TAINT
from fournos.engine.api.conditions import Condition, is_true
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Obj, controller_of, is_terminating
from fournos.engine.queueing.observe import quotas_of, reserved
from fournos.systems.clusters import build
from fournos.systems.clusters.build import REMOVING
from fournos.systems.clusters.gpus import read


@dataclass(frozen=True, slots=True)
class PlannerInput:
    """One cluster as the planner sees it."""

    name: str
    gpus: Mapping[str, int] = field(default_factory=dict)
    """Number of GPUs per short name."""
    closed: str = ""
    """The reason why the cluster takes no jobs, as one word; empty if it takes jobs."""
    for_lock: bool = False
    """True if the cluster has slots although it is closed. Only its lock can take them."""
    removing: bool = False


def planner_input(cluster: Obj) -> PlannerInput:
    """Returns the planner's input for a FournosCluster."""
    spec, status = cluster.get("spec") or {}, cluster.get("status") or {}
    return PlannerInput(
        name=cluster["metadata"]["name"],
        gpus=read(status.get("hardware") or {}).quotas,
        closed=_closed(cluster),
        for_lock=_for_lock(spec, status),
        removing=is_terminating(cluster) and status.get("decommission") == REMOVING,
    )


def _for_lock(spec: Obj, status: Obj) -> bool:
    """True from the end of the last job to the admission of the lock.

    At any other time a closed cluster has no slots. Its opening therefore always changes its quota, and a
    changed quota makes Kueue look again at pending Workloads.
    """
    lock = status.get("lock")
    held = isinstance(lock, Mapping) and lock.get("state") == LockState.HELD
    return bool(spec.get("owner")) and not status.get("runningJobs") and not held


def _closed(cluster: Obj) -> str:
    """Returns why no job may start on the cluster; empty if jobs may.

    The text is one word that is valid as a taint's value.
    """
    if is_terminating(cluster):
        return "removing"
    if (cluster.get("spec") or {}).get("drain"):
        return "draining"
    kubeconfig_status = (cluster.get("status") or {}).get("kubeconfigStatus")
    if kubeconfig_status == "Valid":
        return ""
    return _UNUSABLE.get(str(kubeconfig_status), "not-ready")


_UNUSABLE = {
    "Unreachable": "unreachable",
    "Invalid": "kubeconfig-invalid",
    "Missing": "kubeconfig-missing",
}


# --- the quotas of a cluster ---------------------------------------------------------------------------

MAX_FLAVORS: Final = 64
MAX_RESOURCES: Final = 64
MAX_QUOTAS: Final = 512
_RESOURCE: Final = re.compile(
    r"((?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
"""Kubernetes' qualified name: an optional DNS domain and a slash, then at most 63 characters."""


def is_managed(flavor: Obj) -> bool:
    """True if this operator manages the flavor, by its managed-by label."""
    return (flavor["metadata"].get("labels") or {}).get(build.MANAGED_BY_LABEL) == build.MANAGED_BY


def is_resource(name: str) -> bool:
    """True if the name is a valid resource name."""
    return _RESOURCE.fullmatch(name) is not None


def fits(flavors: int, resources: int) -> bool:
    """True if a group with so many flavors and resources is within Kueue's limits."""
    return flavors <= MAX_FLAVORS and resources <= MAX_RESOURCES and flavors * resources <= MAX_QUOTAS


def number(quantity: object) -> Decimal:
    """Returns the quantity as a number; -1, which is never a quota, if it cannot be parsed."""
    try:
        return parse_quantity(str(quantity))
    except ValueError:
        return Decimal(-1)


def quota_group(groups: Sequence[Mapping[str, Any]], prefix: str) -> int | None:
    """Returns the index of the group that clusters' quotas go to, or None without groups.

    It is the group that covers slots; otherwise the first that covers GPUs; otherwise the first.
    """
    covered = [(index, name) for index, group in enumerate(groups) for name in group["coveredResources"]]
    slots = [index for index, name in covered if name == SLOT_RESOURCE]
    gpus = [index for index, name in covered if name.startswith(prefix)]
    return next(iter([*slots, *gpus, *range(len(groups))]), None)


def covered_elsewhere(groups: Sequence[Mapping[str, Any]], index: int | None) -> set[str]:
    """Returns the resources of all other groups. Kueue allows a resource in one group only."""
    others = (group for number, group in enumerate(groups) if number != index)
    return {name for group in others for name in group["coveredResources"]}


def is_opening(cluster: PlannerInput, flavor: Obj | None) -> bool:
    """True if the cluster is to take jobs, but its flavor still has the taint of a closed cluster.

    Kueue watches flavors and the ClusterQueue separately. If the quota rose in the same pass in which
    the taint goes, Kueue could check its pending Workloads with the old taint, and then not again.
    """
    taints = ((flavor or {}).get("spec") or {}).get("nodeTaints") or ()
    return not cluster.closed and any(taint.get("key") == UNAVAILABLE_TAINT for taint in taints)


def amount(cluster: PlannerInput, resource: str, prefix: str) -> int | None:
    """Returns the wanted quota; None for a resource that does not depend on clusters."""
    if resource == SLOT_RESOURCE:
        # The taint alone keeps jobs away. The quota changes too, because Kueue checks its pending Workloads
        # again after a change of the ClusterQueue, but not after a change of a flavor.
        return SLOTS_PER_CLUSTER if cluster.for_lock or not cluster.closed else 0
    if resource.startswith(prefix):
        return cluster.gpus.get(resource.removeprefix(prefix), 0)
    return None


def taints_of(cluster: PlannerInput, flavor: Obj) -> list[Obj]:
    """Returns the wanted taints of an existing flavor: those of people, and ours while it is closed."""
    before = (flavor.get("spec") or {}).get("nodeTaints") or []
    return [one for one in before if one.get("key") != UNAVAILABLE_TAINT] + closing_taints(cluster)


def closing_taints(cluster: PlannerInput) -> list[Obj]:
    """Returns the taints of a closed cluster.

    Kueue assigns the flavor to no Workload that does not tolerate them. Running Workloads are not affected.
    """
    if not cluster.closed:
        return []
    return [{"key": UNAVAILABLE_TAINT, "value": cluster.closed, "effect": "NoSchedule"}]


def above_quota(queue: Obj) -> list[Obj]:
    """Returns the part of status.flavorsReservation that exceeds the quota."""
    quotas = {at: number(quota["nominalQuota"]) for at, quota in quotas_of(queue)}
    above: dict[str, list[Obj]] = {}
    for (flavor, resource), total in reserved(queue).items():
        if total > quotas.get((flavor, resource), 0):
            above.setdefault(flavor, []).append({"name": resource, "total": f"{total:f}"})
    return [{"name": flavor, "resources": resources} for flavor, resources in above.items()]


# --- who holds quota -----------------------------------------------------------------------------------
# Finds the Workloads that hold a cluster's quota (Kueue's Workload API).
#
# A Workload that belongs to no FournosJob is called foreign. Foreign Workloads are counted, named in the
# status and waited for. They are never changed.


def is_of_job(workload: Obj) -> bool:
    """True if the Workload's controller is a FournosJob. Any other Workload is foreign."""
    owner = controller_of(workload)
    wanted = (FOURNOS_JOB.kind, FOURNOS_JOB.api_version)
    return owner is not None and (owner["kind"], owner["apiVersion"]) == wanted


def is_lock(job: Obj, cluster: str | None) -> bool:
    """True if the FournosJob is the lock of this cluster.

    Name, label and spec must all match, so that a label alone cannot hide a running job.
    """
    meta, spec = job["metadata"], job.get("spec") or {}
    return bool(
        cluster
        and spec.get("lockOnly")
        and spec.get("cluster") == cluster
        and meta["name"] == build.lock_name(cluster)
        and (meta.get("labels") or {}).get(build.LOCK_LABEL) == cluster
    )


def flavors_held(workload: Obj) -> frozenset[str]:
    """Returns the names of the flavors whose quota the Workload holds: reserved and not finished."""
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Finished"):
        return frozenset()
    assigned = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    return frozenset(str(flavor) for one in assigned for flavor in (one.get("flavors") or {}).values())


def foreign_holds(workload: Obj) -> Iterable[str]:
    """Returns the flavors that a foreign Workload holds; empty for a FournosJob's Workload."""
    return () if is_of_job(workload) else flavors_held(workload)


# --- the condition QuotaSynced -------------------------------------------------------------------------
# Sets the condition QuotaSynced: the state of one cluster's quota in Kueue.
#
# It reads only this cluster, its flavor and its entry in the ClusterQueue, never the other clusters. The cost
# of a pass therefore does not depend on the number of clusters, and a change of another cluster changes no
# status here.

NO_QUEUE: Final = "NoClusterQueue"
PENDING: Final = "Pending"
_SHOWN: Final = 200


_sync = partial(Condition, "QuotaSynced")


def quota_synced(cluster: PlannerInput, flavor: Obj | None, queue: Obj | None, *, prefix: str) -> Condition:
    """Returns the condition.

    `flavor` is the ResourceFlavor with the cluster's name. `prefix` is the prefix of GPU resource names.
    """
    if flavor is not None and not is_managed(flavor):
        text = f"ResourceFlavor {cluster.name} was made by somebody else: it and its quotas stay as they are"
        return _sync("False", "ForeignFlavor", text)
    if queue is None:
        return _sync("False", NO_QUEUE, "there is no ClusterQueue to give it quota")
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    index = quota_group(groups, prefix)
    group = groups[index] if index is not None else {"coveredResources": (), "flavors": ()}
    entry = next((entry for entry in group["flavors"] if entry["name"] == cluster.name), None)
    gpus = {prefix + short for short in cluster.gpus}
    named = {name for name in gpus if is_resource(name)}
    covered = {*group["coveredResources"], *covered_elsewhere(groups, index)}
    missing = sorted({SLOT_RESOURCE, *named} - covered, key=lambda name: (name != SLOT_RESOURCE, name))
    if full := _full(group, missing, there=entry is not None):
        return _sync("False", "LimitReached", full)
    if flavor is None or entry is None or missing or not _as_wanted(cluster, flavor, entry, prefix):
        return _sync("False", PENDING, "the ClusterQueue has yet to be brought up to date")
    if flavor["metadata"].get("deletionTimestamp"):
        text = f"somebody deleted ResourceFlavor {cluster.name}; it is made again when it is gone"
        return _sync("False", "FlavorTerminating", text)
    if odd := sorted(gpus - named):
        text = f"no resource can be named {odd[0][:_SHOWN]}: it gets no quota, the rest has"
        return _sync("False", "ResourceNameInvalid", text)
    return _synced(cluster, entry, reserved(queue))


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


def _synced(
    cluster: PlannerInput, entry: Mapping[str, Any], used: Mapping[tuple[str, str], Decimal]
) -> Condition:
    above = [
        f"{taken:f} of {quota['name']} in use, quota {quota['nominalQuota']}"
        for quota in entry["resources"]
        if (taken := used.get((cluster.name, quota["name"]), Decimal(0))) > number(quota["nominalQuota"])
    ]
    if above:
        return _sync("True", "BelowUse", "fewer than are in use; jobs that run go on: " + ", ".join(above))
    if cluster.closed:
        return _sync("True", "Closed", f"takes no jobs: {cluster.closed}")
    return _sync("True", "Synced", "the ClusterQueue has its quotas")
