"""What quotas a cluster has in the ClusterQueue, and which of them fit.

Kueue's rules (its ClusterQueue webhook and CRD): at most 64 flavors and 64 resources a group, 512 quotas a
group; a flavor's resources stand in the order of coveredResources and name all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from fournos.api.quantities import parse_quantity
from fournos.clusters import names
from fournos.clusters.planner_inputs import PlannerInput
from fournos.kube.resource import Obj
from fournos.queueing.slots import SLOT_RESOURCE, SLOTS_PER_CLUSTER, UNAVAILABLE_TAINT

MAX_FLAVORS: Final = 64
MAX_RESOURCES: Final = 64
MAX_QUOTAS: Final = 512
_RESOURCE: Final = re.compile(
    r"((?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
"""Kubernetes' qualified name: a domain and a slash, then at most 63 characters."""


def ours(flavor: Obj) -> bool:
    return (flavor["metadata"].get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY


def is_resource(name: str) -> bool:
    return _RESOURCE.fullmatch(name) is not None


def fits(flavors: int, resources: int) -> bool:
    return flavors <= MAX_FLAVORS and resources <= MAX_RESOURCES and flavors * resources <= MAX_QUOTAS


def number(quantity: object) -> Decimal:
    """A quantity that cannot be read becomes a number that no quota is."""
    try:
        return parse_quantity(str(quantity))
    except ValueError:
        return Decimal(-1)


def quota_group(groups: Sequence[Mapping[str, Any]], prefix: str) -> int | None:
    """The index of the group with the slots; else with GPUs; else of the first; None without groups."""
    covered = [(index, name) for index, group in enumerate(groups) for name in group["coveredResources"]]
    slots = [index for index, name in covered if name == SLOT_RESOURCE]
    gpus = [index for index, name in covered if name.startswith(prefix)]
    return next(iter([*slots, *gpus, *range(len(groups))]), None)


def covered_elsewhere(groups: Sequence[Mapping[str, Any]], index: int | None) -> set[str]:
    """The resources of all groups but one: no resource may be in two."""
    others = (group for number, group in enumerate(groups) if number != index)
    return {name for group in others for name in group["coveredResources"]}


def amount(cluster: PlannerInput, resource: str, prefix: str) -> int | None:
    """The quota that a cluster gives; None for a resource that clusters do not decide on."""
    if resource == SLOT_RESOURCE:
        # The taint keeps jobs away.  That quotas change, too, when it goes makes Kueue look again at who
        # waits: it does so for a change of the ClusterQueue, not for one of a flavor.
        return SLOTS_PER_CLUSTER if cluster.for_lock or not cluster.closed else 0
    if resource.startswith(prefix):
        return cluster.gpus.get(resource.removeprefix(prefix), 0)
    return None


def taints_of(cluster: PlannerInput, flavor: Obj) -> list[Obj]:
    """The wanted taints of an existing flavor: those of people, and ours while the cluster is closed."""
    before = (flavor.get("spec") or {}).get("nodeTaints") or []
    return [one for one in before if one.get("key") != UNAVAILABLE_TAINT] + closing_taints(cluster)


def closing_taints(cluster: PlannerInput) -> list[Obj]:
    """Kueue gives the flavor to no Workload that does not tolerate them; what runs stays."""
    if not cluster.closed:
        return []
    return [{"key": UNAVAILABLE_TAINT, "value": cluster.closed, "effect": "NoSchedule"}]


def above_quota(queue: Obj) -> list[Obj]:
    """Of status.flavorsReservation what is more than the quota."""
    quotas = {
        (entry["name"], quota["name"]): number(quota["nominalQuota"])
        for group in (queue.get("spec") or {}).get("resourceGroups") or ()
        for entry in group.get("flavors") or ()
        for quota in entry.get("resources") or ()
    }
    above: dict[str, list[Obj]] = {}
    for (flavor, resource), total in in_use(queue).items():
        if total > quotas.get((flavor, resource), 0):
            above.setdefault(flavor, []).append({"name": resource, "total": str(total)})
    return [{"name": flavor, "resources": resources} for flavor, resources in above.items()]


def in_use(queue: Obj | None) -> dict[tuple[str, str], int]:
    """What admitted and reserving Workloads take, by flavor and resource (ClusterQueue status)."""
    flavors = ((queue or {}).get("status") or {}).get("flavorsReservation") or ()
    return {
        (flavor["name"], resource["name"]): int(number(resource.get("total") or 0))
        for flavor in flavors
        for resource in flavor.get("resources") or ()
    }
