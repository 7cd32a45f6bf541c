"""Deploys the operator into a local cluster: manifests/deployment.yaml with the image of this checkout."""

from __future__ import annotations

from functools import partial
from typing import Any

from dev import resources
from dev.image import ROOT, Image
from dev.rollout import await_rollout
from devcluster import Cluster, DevclusterError

TEMPLATE = "fournos-resolve-template"
_MOUNT = "/etc/fournos"


def objects(
    image: str, *, secrets_namespace: str, replicas: int = 2, history: bool = False
) -> list[dict[str, Any]]:
    """Returns the manifest, with only image, secrets namespace and mock resolve template changed.

    `history`: a job is deleted after its ttl when the history has recorded its end.
    """
    found = resources.load("manifests/deployment.yaml")
    (deployment,) = (item for item in found if item["kind"] == "Deployment")
    deployment["spec"]["replicas"] = replicas
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = image
    container["env"] += [
        {"name": "FOURNOS_SECRETS_NAMESPACE", "value": secrets_namespace},
        {"name": "FOURNOS_GC_INTERVAL_SEC", "value": "5"},
        {"name": "FOURNOS_RESOLVE_JOB_TEMPLATE", "value": f"{_MOUNT}/resolve_job.yaml"},
    ]
    if history:
        container["env"].append({"name": "FOURNOS_HISTORY_ENABLED", "value": "true"})
    container["volumeMounts"].append({"name": "template", "mountPath": _MOUNT, "readOnly": True})
    pod["volumes"].append({"name": "template", "configMap": {"name": TEMPLATE}})
    template = (ROOT / "dev" / "mock-resolve" / "resolve_job.yaml").read_text(encoding="utf-8")
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": TEMPLATE},
            "data": {"resolve_job.yaml": template},
        },
        *found,
    ]


def deploy(
    cluster: Cluster,
    image: Image | str,
    *,
    namespace: str,
    secrets_namespace: str = "psap-secrets",
    replicas: int = 2,
    history: bool = False,
    limit: int = 120,
) -> None:
    """Applies the manifest and waits, at most `limit` seconds, until all replicas are ready.

    An Image must be loaded before.  Raises DevclusterError with the pods and the end of their logs.
    """
    tag = image if isinstance(image, str) else image.tag
    resources.apply(
        cluster,
        objects(tag, secrets_namespace=secrets_namespace, replicas=replicas, history=history),
        namespace=namespace,
    )
    kubectl = partial(resources.kubectl, cluster, "--namespace", namespace)
    try:
        await_rollout(kubectl, "fournos", limit=limit)
    except DevclusterError as error:
        pods = kubectl("get", "pods", "-l", "app.kubernetes.io/name=fournos")
        output = kubectl("logs", "-l", "app.kubernetes.io/name=fournos", "--tail=20", "--prefix")
        raise DevclusterError(f"The operator does not become ready: {error}\n{pods}\n{output}") from None
