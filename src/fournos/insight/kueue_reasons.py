"""Why a Workload waits, as Kueue states it: the reason of its condition QuotaReserved.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fournos.api.phase import CAUSE_OF_REASON, Cause
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.workload import LEGACY, TOPOLOGY, named_reason, view
from fournos.insight.explanation import Explanation
from fournos.insight.quota import is_counted, uncounted_devices


@dataclass(frozen=True, slots=True)
class KueueReason:
    """What a reason means.  `sentence` follows the name of what waits."""

    sentence: str
    advice: tuple[str, ...] = ()


_TOPOLOGY: Final = KueueReason(
    "waits for nodes that are near enough to each other: the topology that it asks for has no room now.",
    ("ask for a wider topology, or wait until pods there end",),
)
_ASK_ADMINISTRATOR: Final = ("ask an administrator to repair the queue",)

REASONS: Final[Mapping[str, KueueReason]] = {
    TOPOLOGY: _TOPOLOGY,
    "PendingDelayedTopologyRequests": _TOPOLOGY,
    "AdmissionGated": KueueReason(
        "is held back by a gate.",
        ("whoever set the annotation kueue.x-k8s.io/admission-gated-by removes it",),
    ),
    "WaitingForPreemptedWorkloads": KueueReason(
        "waits until the workloads that are preempted for it have given their quota back."
    ),
    "WaitingForPodsReady": KueueReason(
        "waits until the pods of all admitted workloads are ready (Kueue's waitForPodsReady).",
        ("see whose pods are not ready: kubectl get workloads -A",),
    ),
    "Misconfigured": KueueReason("waits for a queue that cannot be used.", _ASK_ADMINISTRATOR),
    "Suspended": KueueReason(
        "waits: its queue is stopped, or not active.",
        ("wait until an administrator sets stopPolicy to None, or repairs the queue",),
    ),
}
"""Reasons that name no quota: what is free and what is asked for does not explain them."""

_WAITING_FOR_QUOTA: Final = frozenset({"WaitingForQuota", "PendingEvaluation"})
_UNUSED_QUOTA_MESSAGE: Final = "insufficient unused quota"
"""Kueue's words for quota that others hold; of more than the maximum it says "insufficient quota"."""


def kueue_reason(name: str, workload: Obj, because: tuple[str, ...]) -> Explanation | None:
    """Explains a waiting Workload by Kueue's own reason; None if the quota explains it."""
    queue = view(workload)
    named = named_reason(queue.reason, queue.message)
    if reason := REASONS.get(named):
        return Explanation(f"{name} {reason.sentence}", because, reason.advice, cause=CAUSE_OF_REASON[named])
    if devices := uncounted_devices(workload):
        text = f"{name} asks for devices (DRA: {', '.join(devices)}), whose quota only Kueue counts."
        return Explanation(text, because, cause=Cause.QUOTA)
    return None


def waits_for_quota(workload: Obj) -> bool:
    """True if Kueue says that the Workload waits for quota: then it can be admitted once quota is free."""
    queue = view(workload)
    if queue.reason in LEGACY:
        return _UNUSED_QUOTA_MESSAGE in queue.message
    return queue.reason in _WAITING_FOR_QUOTA


def not_counted(workload: Obj) -> tuple[str, ...]:
    """What qualifies a verdict on quota: Kueue's Configuration is not read, only what Kueue has counted."""
    if is_counted(workload) or view(workload).message:
        return ()
    return (
        "Kueue has not counted it yet: the templates of its pods were, "
        "without excludeResourcePrefixes and transformations of Kueue's Configuration",
    )


def otherwise_counted(name: str) -> str:
    """The verdict where Kueue waits for quota, and the quota that is seen here would never be enough."""
    return f"{name} waits for quota, which Kueue counts in another way than its ClusterQueue shows."
