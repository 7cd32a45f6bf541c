"""What a cluster is to Kueue: a ResourceFlavor with slots (the Fournos README, "Scheduling").

Jobs ask for slots, clusters give them; both sides agree on these words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

SLOT_RESOURCE: Final = "fournos/cluster-slot"
SLOTS_PER_CLUSTER: Final = 100
"""An exclusive job takes them all, a shared one takes one."""
CLUSTER_NODE_LABEL: Final = "fournos.dev/cluster"
"""Node label of a cluster's ResourceFlavor; its value is the cluster's name."""
GPU_PREFIX: Final = "fournos/gpu-"
"""Of the names under which clusters give GPUs of a type, where no setting says otherwise."""
UNAVAILABLE_TAINT: Final = "fournos.dev/unavailable"
"""Taint of the ResourceFlavor of a cluster that takes no jobs; its value says why.  Locks tolerate it."""
UNAVAILABLE: Final[Mapping[str, str]] = {
    "draining": "it is being drained",
    "removing": "it is being taken out of service",
    "unreachable": "it cannot be reached",
    "kubeconfig-invalid": "its kubeconfig is not accepted",
    "kubeconfig-missing": "its kubeconfig Secret is missing",
    "not-ready": "it is not ready yet",
}
"""The taint's values, in words."""

_REASON: Final = re.compile(
    r"(?:, )?untolerated taint \{" + re.escape(UNAVAILABLE_TAINT) + r" (\S*)[^}]*\}"
    r" in flavor ([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)"
)


def why_unavailable(word: str) -> str:
    """What the taint's value means; a value of somebody else's stands for itself."""
    return UNAVAILABLE.get(word, word or "no reason is given")


def unavailable_in(message: str) -> tuple[dict[str, str], str]:
    """The clusters that a message of Kueue's scheduler calls unavailable, each with the reason in words, and
    the message without them."""
    closed = {flavor: why_unavailable(word) for word, flavor in _REASON.findall(message)}
    return closed, _REASON.sub("", message).replace(": , ", ": ")


def no_jobs(closed: Mapping[str, str]) -> str:
    """The same as a sentence."""
    if len(closed) == 1:
        ((name, why),) = closed.items()
        return f"Cluster {name} takes no jobs: {why}"
    return "No cluster takes jobs: " + "; ".join(f"{name}: {why}" for name, why in sorted(closed.items()))
