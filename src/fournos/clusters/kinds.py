"""The resource type of the FournosCluster operator."""

from __future__ import annotations

from fournos.api.kinds import FOURNOS_CLUSTER as FOURNOS_CLUSTER
