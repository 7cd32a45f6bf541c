"""What a cluster is to Kueue: a ResourceFlavor with slots (the Fournos README, "Scheduling").

Jobs ask for slots, clusters give them; both sides agree on these words.
"""

from __future__ import annotations

from typing import Final

SLOT_RESOURCE: Final = "fournos/cluster-slot"
SLOTS_PER_CLUSTER: Final = 100
"""An exclusive job takes them all, a shared one takes one."""
CLUSTER_NODE_LABEL: Final = "fournos.dev/cluster"
"""Node label of a cluster's ResourceFlavor; its value is the cluster's name."""
UNAVAILABLE_TAINT: Final = "fournos.dev/unavailable"
"""Taint of the ResourceFlavor of a cluster that takes no jobs; its value says why.  Locks tolerate it."""
