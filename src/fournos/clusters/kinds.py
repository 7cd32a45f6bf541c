"""The resource type of the cluster system."""

from __future__ import annotations

from fournos.kube.resource import Resource

FOURNOS_CLUSTER = Resource("fournos.dev", "v1", "FournosCluster", "fournosclusters")
