"""Computes a cluster's quotas in the ClusterQueue, and checks them against Kueue's limits.

Kueue's rules (its ClusterQueue webhook and CRD): at most 64 flavors and 64 resources per group, 512 quotas
per group; the resources of a flavor stand in the order of coveredResources and name all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from fournos.api.slots import SLOT_RESOURCE, SLOTS_PER_CLUSTER, UNAVAILABLE_TAINT
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.quotas import quotas_of
from fournos.systems.clusters import names
from fournos.systems.clusters.planner_inputs import PlannerInput

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
    return (flavor["metadata"].get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY


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
    for (flavor, resource), total in in_use(queue).items():
        if total > quotas.get((flavor, resource), 0):
            above.setdefault(flavor, []).append({"name": resource, "total": str(total)})
    return [{"name": flavor, "resources": resources} for flavor, resources in above.items()]


def in_use(queue: Obj | None) -> dict[tuple[str, str], int]:
    """Returns the amounts that admitted and reserving Workloads take, per (flavor, resource).

    The source is the status of the ClusterQueue.
    """
    flavors = ((queue or {}).get("status") or {}).get("flavorsReservation") or ()
    return {
        (flavor["name"], resource["name"]): int(number(resource.get("total") or 0))
        for flavor in flavors
        for resource in flavor.get("resources") or ()
    }
