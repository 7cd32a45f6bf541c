"""What ClusterQueues of a cohort can take of each other's quota, and how fair sharing orders them.  Pure.

As Kueue counts (sigs.k8s.io/kueue, pkg/cache/scheduler/resource_node.go), for a cohort without a parent and
without quota of its own: what those add is not counted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.observe import At, quotas_of, reserved
from fournos.insight.values import name_of, spec_of, status_of

ZERO: Final = Decimal(0)
Queue: TypeAlias = Obj | KubeError | None
"""A KubeError stands in place of one that could not be read."""


def members(cluster_queue: Obj, queues: Iterable[Obj]) -> tuple[Obj, ...]:
    """Returns the other ClusterQueues of its cohort; none if it has no cohort."""
    cohort, own = spec_of(cluster_queue).get("cohortName"), name_of(cluster_queue)
    if not cohort:
        return ()
    return tuple(one for one in queues if spec_of(one).get("cohortName") == cohort and name_of(one) != own)


def available(cluster_queue: Obj, others: Iterable[Obj]) -> dict[At, Decimal]:
    """Returns (flavor, resource) → the quota that it can take now without preemption.

    It is negative where too much is used.  `others` are the members of its cohort that are known.
    """
    shared: dict[At, Decimal] = {}
    for queue in (cluster_queue, *others):
        used = reserved(queue)
        for at, quota in quotas_of(queue):
            not_lent, lent = _split(quota)
            shared[at] = shared.get(at, ZERO) + lent - max(ZERO, used.get(at, ZERO) - not_lent)
    result, used = {}, reserved(cluster_queue)
    for at, quota in quotas_of(cluster_queue):
        (not_lent, lent), taken = _split(quota), used.get(at, ZERO)
        from_cohort = shared[at]
        if quota.get("borrowingLimit") is not None:
            own = lent - max(ZERO, taken - not_lent)
            from_cohort = min(from_cohort, own + parse_quantity(quota["borrowingLimit"]))
        result[at] = max(ZERO, not_lent - taken) + from_cohort
    return result


def _split(quota: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    """The part of a nominal quota that is never lent, and the part that the cohort shares."""
    nominal, limit = parse_quantity(quota.get("nominalQuota") or 0), quota.get("lendingLimit")
    lent = nominal if limit is None else min(nominal, parse_quantity(limit))
    return nominal - lent, lent


# --- fair sharing ---------------------------------------------------------------------------------------


LESS_USED: Final = "queue it by a LocalQueue that has used less; a priority counts within a LocalQueue only"
"""The advice where usage orders a queue."""


def usage_orders(cluster_queue: Queue) -> bool:
    """True if a queue serves the LocalQueue first that has used least, before priority and age count."""
    scope = spec_of(cluster_queue).get("admissionScope") if isinstance(cluster_queue, dict) else None
    return (scope or {}).get("admissionMode") == "UsageBasedAdmissionFairSharing"


def fair_shares(cluster_queue: Queue, local_queue: Queue) -> tuple[str, ...]:
    """Returns what besides priority and age decides whose turn it is, one sentence each."""
    lines = []
    if usage_orders(cluster_queue):
        status = status_of(local_queue).get("fairSharing") or {} if isinstance(local_queue, dict) else {}
        consumed = (status.get("admissionFairSharingStatus") or {}).get("consumedResources") or {}
        used = ", ".join(f"{amount} of {name}" for name, amount in sorted(consumed.items()))
        lines.append(
            "Kueue serves the LocalQueue first that has used least (AdmissionFairSharing)"
            + (f"; {name_of(local_queue)} has used {used}" if isinstance(local_queue, dict) and used else "")
        )
    share = status_of(cluster_queue).get("fairSharing") if isinstance(cluster_queue, dict) else None
    if isinstance(cluster_queue, dict) and share and spec_of(cluster_queue).get("cohortName"):
        weight = (spec_of(cluster_queue).get("fairSharing") or {}).get("weight", 1)
        lines.append(
            f"cohort {spec_of(cluster_queue)['cohortName']} is shared fairly: ClusterQueue "
            f"{name_of(cluster_queue)} has the share {share.get('weightedShare')} (weight {weight}), "
            "and the lowest share is served first"
        )
    return tuple(lines)
