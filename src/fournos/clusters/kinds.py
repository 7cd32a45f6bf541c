"""The resource type of the FournosCluster operator."""

from __future__ import annotations

from fournos.queueing.kinds import FOURNOS_CLUSTER as FOURNOS_CLUSTER
