"""Installs the official releases of Kueue and Tekton, for clusters that can pull images (unverified)."""

from __future__ import annotations

from devcluster.kubectl import Kubectl
from devcluster.versions import Versions

DEFINITIONS = {"tekton": "pipelineruns.tekton.dev", "kueue": "workloads.kueue.x-k8s.io"}
"""The CRD whose presence shows that a part is installed."""


def is_installed(kubectl: Kubectl, part: str) -> bool:
    return kubectl.run("get", "crd", DEFINITIONS[part], check=False).returncode == 0


def release(part: str, versions: Versions) -> str:
    """The address of the manifests of a part."""
    if part == "tekton":
        return f"https://github.com/tektoncd/pipeline/releases/download/{versions.tekton}/release.yaml"
    return f"https://github.com/kubernetes-sigs/kueue/releases/download/{versions.kueue}/manifests.yaml"


def apply_release(kubectl: Kubectl, part: str, versions: Versions) -> None:
    """Applies the official release of a part. Raises CommandFailedError."""
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", release(part, versions), limit=300)
