"""The APIs that a part of the operator needs in its cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RequiredApi:
    """An API group that must be served in this version.

    If it is absent, jobs wait for it.  If only other versions are served, the operator does not start.
    """

    name: str
    group: str
    version: str
    fix: str
    ours: bool = False
    """True if its CRDs belong to this product; the operator does not start without them."""


FOURNOS: Final = RequiredApi(
    "Fournos", "fournos.dev", "v1", "apply its CRDs with: kubectl apply -f manifests/crd.yaml", ours=True
)
"""The group of FournosJobs and FournosClusters, whose CRDs are installed together."""
APPWRAPPER: Final = RequiredApi(
    "AppWrapper",
    "workload.codeflare.dev",
    "v1beta2",
    "apply its CRD with: kubectl apply --server-side -f deploy/appwrapper/crd.yaml",
    ours=True,
)
MINICLUSTER: Final = RequiredApi(
    "MiniCluster",
    "flux-framework.org",
    "v1alpha2",
    "apply its CRD with: kubectl apply --server-side -f deploy/minicluster/crd.yaml",
    ours=True,
)
TEKTON: Final = RequiredApi(
    "Tekton Pipelines", "tekton.dev", "v1", "upgrade Tekton Pipelines to 0.44 or newer"
)
