"""MiniClusters for tests, and what is made of them."""

from __future__ import annotations

from typing import Any

from fournos.systems.miniclusters import build
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.spec import Cluster, cluster_of

SETTINGS = MiniClusterSettings()
HELLO = {"image": "ubuntu:noble", "command": "echo hello world"}


def minicluster(
    container: dict[str, Any] | None = None, *, status: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """Returns a MiniCluster with one container that prints hello, with the given changes."""
    spec.setdefault("containers", [{**HELLO, **(container or {})}])
    found: dict[str, Any] = {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": "flux-sample", "namespace": "ns", "uid": "uid-1"},
        "spec": spec,
    }
    return found | ({"status": status} if status else {})


def cluster(container: dict[str, Any] | None = None, **spec: Any) -> Cluster:
    return cluster_of(minicluster(container, **spec), SETTINGS)


def made(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, dict[str, Any]]:
    """The objects by kind and name, such as "Job/flux-sample"."""
    objects = build.wanted(minicluster(container, **spec), SETTINGS)
    return {f"{one['kind']}/{one['metadata']['name']}": dict(one) for one in objects}


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """The pod spec of the Job."""
    found: dict[str, Any] = made(container, **spec)["Job/flux-sample"]["spec"]["template"]["spec"]
    return found


def scripts(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, str]:
    """The data of the entrypoint ConfigMap."""
    found: dict[str, str] = made(container, **spec)["ConfigMap/flux-sample-entrypoint"]["data"]
    return found


def runner(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = pod(container, **spec)["containers"][0]
    return found


def mounts(container: dict[str, Any]) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
