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


def queue() -> list[dict[str, Any]]:
    """A place for one run at a time; the higher priority goes first."""
    version = "kueue.x-k8s.io/v1beta2"
    quota = {"name": "tekton.dev/pipelineruns", "nominalQuota": "1"}
    group = {
        "coveredResources": [quota["name"]],
        "flavors": [{"name": NAMESPACE, "resources": [quota]}],
    }
    cluster_queue = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": NAMESPACE},
            "spec": cluster_queue,
        },
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": "user-queue", "namespace": NAMESPACE},
            "spec": {"clusterQueue": NAMESPACE},
        },
        *(
            {
                "apiVersion": version,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": f"{NAMESPACE}-{name}"},
                "value": value,
            }
            for name, value in (("low", 1), ("high", 100))
        ),
    ]


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    given = os.environ.get("FOURNOS_E2E_CLUSTER")
    return Cluster(require(given)) if given else ensure(CLUSTER, profile="full")


@pytest.fixture(scope="package")
def hub(cluster: Cluster) -> Iterator[Hub]:
    progress = Progress()
    image = operator_image(progress)
    cluster.load(image.archive, progress=progress)
    whole = [*manifests(image.tag), *queue()]
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
