"""Reads the quotas of a ClusterQueue, and what Workloads have reserved of them.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Obj

At: TypeAlias = tuple[str, str]
"""The names of a flavor and a resource."""


def covered(cluster_queue: Obj) -> Iterator[str]:
    """Yields the names of the resources that a ClusterQueue covers, by group."""
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        yield from map(str, group.get("coveredResources") or ())


def quotas_of(cluster_queue: Obj) -> Iterator[tuple[At, Mapping[str, Any]]]:
    """Yields flavor and resource with their quota as written: nominalQuota, borrowingLimit, lendingLimit."""
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                yield (str(flavor["name"]), str(quota["name"])), quota


def reserved(cluster_queue: Obj) -> dict[At, Decimal]:
    """Returns (flavor, resource) → the reserved quota.  Raises ValueError for what is not a quantity."""
    return {
        (flavor["name"], resource["name"]): parse_quantity(resource.get("total") or 0)
        for flavor in (cluster_queue.get("status") or {}).get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }
