"""The hub of all end-to-end tests with the MiniCluster operator in it, or a cluster that has one already.

With FOURNOS_CONTROLLER_NAMESPACE set, the operator that runs in that namespace is tested, on KUBECONFIG's
cluster, and none is started; FLUX_IMAGE then names the image of the pods.  Any image with flux, bash and
python3 will do: the manifests are those that real flux takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dev.image import operator_image
from dev.rollout import await_rollout
from dev.setup import prepare
from devcluster import manifests
from devcluster.progress import Progress
from tests.e2e.hub import ROOT, Hub
from tests.e2e.jobs.conftest import WHERE
from tests.e2e.miniclusters.clusters import KIND, QUEUE, Clusters
from tests.fakes.flux_image import flux_image
from tests.queues import queues

NAMESPACE = os.environ.get("MINICLUSTER_TEST_NAMESPACE", "minicluster-e2e")
SYSTEM = "operator-system"


@pytest.fixture(scope="session")
def place() -> tuple[Path, str]:
    """Kubeconfig and the image of the pods."""
    if os.environ.get("FOURNOS_CONTROLLER_NAMESPACE"):
        return Path(os.environ["KUBECONFIG"]), os.environ["FLUX_IMAGE"]
    progress = Progress()
    cluster = prepare(WHERE, progress)
    operator, flux = operator_image(progress), flux_image(progress)
    for image in (operator, flux):
        cluster.load(image.archive, progress=progress)
    hub = Hub(cluster.kubeconfig_path, SYSTEM)
    objects = manifests.parse(hub.kubectl("kustomize", str(ROOT / "deploy" / "minicluster")))
    for one in objects:
        if one["kind"] == "Deployment":
            one["spec"]["replicas"] = 1
            container = one["spec"]["template"]["spec"]["containers"][0]
            container["image"] = operator.tag
    hub.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(objects))
    await_rollout(hub.run, "operator-controller-manager", limit=180)
    return cluster.kubeconfig_path, flux.tag


@pytest.fixture(scope="session")
def clusters(place: tuple[Path, str]) -> Iterator[Clusters]:
    """A namespace with a queue of 0.4 CPUs."""
    hub = Clusters(place[0], NAMESPACE, image=place[1])
    hub.until(lambda: not _going(hub), lambda: "the namespace of an earlier run does not go", timeout=120)
    hub.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(queues(NAMESPACE, QUEUE, {"cpu": "400m"})))
    hub.queue_active(QUEUE)
    hub.run("delete", KIND, "--all", "--timeout=180s")
    yield hub
    hub.run("delete", KIND, "--all", "--wait=false", check=False)
    hub.kubectl("delete", "clusterqueue", NAMESPACE, "--wait=false", check=False)
    hub.kubectl("delete", "namespace", NAMESPACE, "--wait=false", check=False)
    for level in ("low", "high"):
        hub.kubectl("delete", "workloadpriorityclass", f"{NAMESPACE}-{level}", check=False)


def _going(hub: Clusters) -> bool:
    words = ("get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "jsonpath={.status.phase}")
    return hub.kubectl(*words) == "Terminating"
