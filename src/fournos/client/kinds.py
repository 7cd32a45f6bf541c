"""The resource types of systems whose typed models are too heavy to import with the client."""

from __future__ import annotations

from typing import Final

from fournos.engine.kube.resource import Resource

APPWRAPPER: Final = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
MINICLUSTER: Final = Resource("flux-framework.org", "v1alpha2", "MiniCluster", "miniclusters")
