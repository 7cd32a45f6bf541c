"""Deploys the history into a local cluster: deploy/history with the image of this checkout."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import yaml

from dev import resources
from dev.endings import evidence
from dev.image import ROOT, Image
from dev.rollout import LIMIT, await_rollout, pods_of
from devcluster import Cluster

HOME = "fournos-history"
NAME = "fournos-history"
_FOLDER = "deploy/history"


def objects(image: str) -> list[dict[str, Any]]:
    """Returns the manifests with this image."""
    listed = yaml.safe_load((ROOT / _FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return with_image([one for name in listed for one in resources.load(f"{_FOLDER}/{name}")], image)


def with_image(shipped: Iterable[dict[str, Any]], image: str) -> list[dict[str, Any]]:
    """Returns the shipped manifests with this image."""
    manifests = list(shipped)
    (deployment,) = (manifest for manifest in manifests if manifest["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    return manifests


def deploy(cluster: Cluster, image: Image | str) -> None:
    """Applies the manifests and waits until the store answers, and the API.

    Raises DevclusterError with the pods and the end of their logs.
    """
    tag = image if isinstance(image, str) else image.tag
    found = objects(tag)
    resources.apply(cluster, [one for one in found if one["kind"] == "Namespace"])
    resources.apply(cluster, [one for one in found if one["kind"] != "Namespace"])
    kubectl = partial(resources.kubectl, cluster, "--namespace", HOME)
    await_rollout(kubectl, NAME, limit=LIMIT)  # a pod of it is ready when its store answers
    # The API server forwards requests to it.
    words = ("wait", "--for=condition=Available", "apiservice/v1.history.fournos.dev")
    with evidence(lambda: pods(cluster)):
        kubectl(*words, f"--timeout={LIMIT}s", limit=LIMIT + 10)


def pods(cluster: Cluster) -> str:
    """Returns the pods of the history and the last lines of their logs."""
    return pods_of(partial(resources.kubectl, cluster, "--namespace", HOME), NAME)
