"""Deploys the history into a local cluster: deploy/history with the image of this checkout."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import yaml

from dev import resources
from dev.image import ROOT, Image
from dev.rollout import await_rollout
from devcluster import Cluster, DevclusterError

HOME = "fournos-history"
_FOLDER = "deploy/history"


def objects(image: str) -> list[dict[str, Any]]:
    """Returns the manifests, with only image and volumes changed: the database lives as long as its pod."""
    listed = yaml.safe_load((ROOT / _FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return without_storage([one for name in listed for one in resources.load(f"{_FOLDER}/{name}")], image)


def without_storage(found: Iterable[dict[str, Any]], image: str) -> list[dict[str, Any]]:
    """Returns the manifests for a cluster without a storage class, with this image."""
    shipped = [one for one in found if one["kind"] != "PersistentVolumeClaim"]
    (deployment,) = (one for one in shipped if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = image
    pod["volumes"] = [{"name": volume["name"], "emptyDir": {}} for volume in pod["volumes"]]
    return shipped


def deploy(cluster: Cluster, image: Image | str, *, limit: int = 120) -> None:
    """Applies the manifests and waits until the API answers.  Raises DevclusterError."""
    tag = image if isinstance(image, str) else image.tag
    found = objects(tag)
    resources.apply(cluster, [one for one in found if one["kind"] == "Namespace"])
    resources.apply(cluster, [one for one in found if one["kind"] != "Namespace"])
    kubectl = partial(resources.kubectl, cluster, "--namespace", HOME)
    try:
        await_rollout(kubectl, "fournos-history", limit=limit)
        # The API server forwards requests to it.
        words = ("wait", "--for=condition=Available", "apiservice/v1.history.fournos.dev")
        kubectl(*words, f"--timeout={limit}s", limit=limit + 10)
    except DevclusterError as error:
        output = kubectl("logs", "deployment/fournos-history", "--tail=20")
        raise DevclusterError(f"The history does not become ready: {error}\n{output}") from None
