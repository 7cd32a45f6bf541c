"""Installs the official releases of Kueue and Tekton, for clusters that can pull images (unverified)."""

from __future__ import annotations

from devcluster.kubectl import Kubectl
from devcluster.manifests import KUEUE_VERSION, TEKTON_VERSION

RELEASES = {
    "tekton": f"https://github.com/tektoncd/pipeline/releases/download/{TEKTON_VERSION}/release.yaml",
    "kueue": f"https://github.com/kubernetes-sigs/kueue/releases/download/{KUEUE_VERSION}/manifests.yaml",
}
DEFINITIONS = {"tekton": "pipelineruns.tekton.dev", "kueue": "workloads.kueue.x-k8s.io"}
"""The CRD whose presence shows that a part is installed."""


def is_installed(kubectl: Kubectl, part: str) -> bool:
    return kubectl.run("get", "crd", DEFINITIONS[part], check=False).returncode == 0


def apply_release(kubectl: Kubectl, part: str) -> None:
    """Applies the release that this version was tested with. Raises CommandFailedError."""
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", RELEASES[part], limit=300)
