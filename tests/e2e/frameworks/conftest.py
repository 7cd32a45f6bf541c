"""A full cluster with deploy/frameworks in it as it stands, but for the image of this checkout.

FOURNOS_E2E_CLUSTER names another cluster of this machine that runs already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from dev import resources
from dev.image import ROOT, operator_image
from dev.rollout import await_rollout
from devcluster import Cluster, ensure
from devcluster.progress import Progress
from devcluster.state import require
from tests.e2e.hub import CLUSTER, Hub
from tests.queues import queues

NAMESPACE = "fournos-frameworks-e2e"
OPERATOR = "fournos-frameworks"
FOLDER = ROOT / "deploy" / "frameworks"
FILES = ("namespace", "rbac", "kinds", "service", "webhooks", "deployment")


def manifests(image: str) -> list[dict[str, Any]]:
    """deploy/frameworks, one replica of it."""
    found = [document for name in FILES for document in resources.load(FOLDER / f"{name}.yaml")]
    for item in found:
        if item["kind"] == "Deployment":
            item["spec"]["replicas"] = 1
            item["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return found


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    given = os.environ.get("FOURNOS_E2E_CLUSTER")
    return Cluster(require(given)) if given else ensure(CLUSTER, profile="full")


@pytest.fixture(scope="package")
def hub(cluster: Cluster) -> Iterator[Hub]:
    progress = Progress()
    image = operator_image(progress)
    cluster.load(image.archive, progress=progress)
    # A place for one run at a time; the higher priority goes first.
    place = queues(NAMESPACE, "user-queue", {"tekton.dev/pipelineruns": "1"})
    whole = [*manifests(image.tag), *place]
    resources.apply(cluster, [item for item in whole if item["kind"] == "Namespace"])
    resources.apply(cluster, [item for item in whole if item["kind"] != "Namespace"])
    found = Hub(cluster.kubeconfig_path, NAMESPACE)
    await_rollout(partial(found.kubectl, "-n", OPERATOR), OPERATOR, limit=240)
    yield found
    # A webhook that nobody answers would refuse every queued run of others.
    found.kubectl("delete", "mutatingwebhookconfiguration", OPERATOR)
    found.run("delete", "pipelineruns", "--all", "--wait=false")
    found.until(lambda: not found.list("pipelineruns"), lambda: "runs stay")
    found.until(lambda: not found.list("workloads.kueue.x-k8s.io"), lambda: "Workloads stay")
    for item in reversed(whole):
        if item["kind"] not in ("MutatingWebhookConfiguration", "LocalQueue") and (
            item["kind"] == "Namespace" or not item["metadata"].get("namespace")
        ):
            name = item["metadata"]["name"]
            found.kubectl("delete", item["kind"], name, "--ignore-not-found", "--wait=false")
