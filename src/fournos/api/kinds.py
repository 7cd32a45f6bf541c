"""The resource types of this product."""

from __future__ import annotations

from typing import Final

from fournos.engine.kube.resource import Resource

FOURNOS_JOB: Final = Resource("fournos.dev", "v1", "FournosJob", "fournosjobs")
FOURNOS_CLUSTER: Final = Resource("fournos.dev", "v1", "FournosCluster", "fournosclusters")
APPWRAPPER: Final = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
MINICLUSTER: Final = Resource("flux-framework.org", "v1alpha2", "MiniCluster", "miniclusters")
