"""A cluster as Kueue sees it: a ResourceFlavor with slots (the Fournos README, "Scheduling").

Jobs request slots and clusters provide them.  Both sides use the names in this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

SLOT_RESOURCE: Final = "fournos/cluster-slot"
SLOTS_PER_CLUSTER: Final = 100
"""Slots of each cluster.  An exclusive job takes all of them, a shared job takes one."""
CLUSTER_NODE_LABEL: Final = "fournos.dev/cluster"
"""Node label of a cluster's ResourceFlavor; its value is the cluster's name."""
GPU_PREFIX: Final = "fournos/gpu-"
"""Prefix of the resource names for GPUs of a type, if no setting replaces them."""
UNAVAILABLE_TAINT: Final = "fournos.dev/unavailable"
"""Taint of the ResourceFlavor of a cluster that takes no jobs; its value is the reason; locks tolerate it."""
UNAVAILABLE: Final[Mapping[str, str]] = {
    "draining": "it is being drained",
    "removing": "it is being taken out of service",
    "unreachable": "it cannot be reached",
    "kubeconfig-invalid": "its kubeconfig is not accepted",
    "kubeconfig-missing": "its kubeconfig Secret is missing",
    "not-ready": "it is not ready yet",
}
"""The meaning of the taint's values, for messages."""

_REASON: Final = re.compile(
    r"(?:, )?untolerated taint \{" + re.escape(UNAVAILABLE_TAINT) + r" (\S*)[^}]*\}"
    r" in flavor ([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)"
)
_ELSEWHERE: Final = re.compile(r"(?:, )?flavor \S+ doesn't match node affinity")


def why_unavailable(word: str) -> str:
    """Returns the meaning of the taint's value; an unknown value is returned as it is."""
    return UNAVAILABLE.get(word, word or "no reason is given")


def unavailable_in(message: str) -> tuple[dict[str, str], str]:
    """Finds the unavailable clusters in a message of Kueue's scheduler.

    Returns the clusters, each with the reason, and the message without them.
    """
    closed = {flavor: why_unavailable(word) for word, flavor in _REASON.findall(message)}
    return closed, _REASON.sub("", message).replace(": , ", ": ")


def blames_others(message: str) -> bool:
    """Returns True if a message of Kueue's scheduler has reasons of clusters that the job may run on."""
    return bool(_ELSEWHERE.sub("", message).partition(": ")[2].strip(" ,"))


def no_jobs(closed: Mapping[str, str]) -> str:
    """Returns the unavailable clusters and their reasons as one sentence."""
    if len(closed) == 1:
        ((name, why),) = closed.items()
        return f"Cluster {name} takes no jobs: {why}"
    return "No cluster takes jobs: " + "; ".join(f"{name}: {why}" for name, why in sorted(closed.items()))
