"""Deploys the operator into a local cluster: `kubectl apply -k deploy` with the image of this checkout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from dev import resources
from dev.image import ROOT, Image
from dev.rollout import LIMIT, await_rollout, pods_of
from dev.setup import Where
from devcluster import Cluster

TEMPLATE = "fournos-resolve-template"
_MOUNT = "/etc/fournos"


def objects(
    shipped: Iterable[dict[str, Any]],
    image: str,
    *,
    replicas: int = 2,
    settings: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Returns the shipped objects with only image, replicas, settings and mock resolve template changed.

    `settings`: environment variables of the operator, beside or instead of the shipped ones.
    """
    manifests = list(shipped)
    (deployment,) = (item for item in manifests if item["kind"] == "Deployment")
    deployment["spec"]["replicas"] = replicas
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = image
    changed = {
        "FOURNOS_GC_INTERVAL_SEC": "5",
        "FOURNOS_RESOLVE_JOB_TEMPLATE": f"{_MOUNT}/resolve_job.yaml",
        **(settings or {}),
    }
    container["env"] = [
        *(entry for entry in container["env"] if entry["name"] not in changed),
        *({"name": name, "value": value} for name, value in changed.items()),
    ]
    container["volumeMounts"].append({"name": "template", "mountPath": _MOUNT, "readOnly": True})
    pod["volumes"].append({"name": "template", "configMap": {"name": TEMPLATE}})
    template = (ROOT / "dev" / "mock-resolve" / "resolve_job.yaml").read_text(encoding="utf-8")
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": TEMPLATE, "namespace": deployment["metadata"]["namespace"]},
        "data": {"resolve_job.yaml": template},
    }
    return [config, *manifests]


def deploy(
    cluster: Cluster,
    image: Image | str,
    where: Where,
    *,
    replicas: int = 2,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Applies the objects and waits until all replicas are ready.

    `where` must be set up (dev.setup) with a namespace for the operator, and an Image must be loaded.
    Raises DevclusterError with the pods and the end of their logs.
    """
    shipped = resources.kustomized(where.operator_namespace, where.namespace, where.secrets_namespace)
    tag = image if isinstance(image, str) else image.tag
    resources.apply(cluster, objects(shipped, tag, replicas=replicas, settings=settings))
    # One that the published commands left beside the jobs has lost its rights by that.
    beside = ("deployment/fournos", "serviceaccount/fournos", "--namespace", where.namespace)
    resources.kubectl(cluster, "delete", "--ignore-not-found", *beside)
    kubectl = partial(resources.kubectl, cluster, "--namespace", where.operator_namespace)
    await_rollout(kubectl, "fournos", limit=LIMIT)


def pods(cluster: Cluster, namespace: str) -> str:
    """Returns the pods of the operator in its namespace, and the last lines of their logs."""
    return pods_of(partial(resources.kubectl, cluster, "--namespace", namespace), "fournos")
