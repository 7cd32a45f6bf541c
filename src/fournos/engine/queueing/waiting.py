"""The reason for which a Workload waits, by name: Kueue's own, or the one that its message shows.  Pure.

Kueue 0.19 has a reason for each cause behind the gate UnadmittedWorkloadsObservability.  Without it, and
before, the reasons are Pending, Inadmissible and Waiting, and only the message shows which cause it is
(sigs.k8s.io/kueue, apis/kueue/v1beta2/workload_types.go and pkg/scheduler/scheduler.go).
"""

from __future__ import annotations

from typing import Final

LEGACY: Final = frozenset({"Pending", "Inadmissible", "Waiting"})
TOPOLOGY: Final = "TopologyPlacementFailed"
_MESSAGES: Final = (
    ("Pending the preemption of ", "WaitingForPreemptedWorkloads"),
    ("overlapping preemption targets", "WaitingForPreemptedWorkloads"),
    ("in PodsReady condition", "WaitingForPodsReady"),
    ("gated by", "AdmissionGated"),
    ('topology "', TOPOLOGY),
)
"""Parts of the messages of Kueue without that gate, in the order in which they count."""
_QUOTA_MESSAGE: Final = "insufficient "


def named_reason(reason: str, message: str) -> str:
    """Returns the reason of the condition QuotaReserved; for one that says nothing, that of its message.

    "" if the message names quota or nothing that is known.
    """
    if reason not in LEGACY:
        return reason
    for part, cause in _MESSAGES:
        # A topology is one of several causes in a message that names quota, too.
        if part in message and not (cause == TOPOLOGY and _QUOTA_MESSAGE in message):
            return cause
    return ""
