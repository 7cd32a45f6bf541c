"""The hub of all end-to-end tests with the AppWrapper operator in it, or a cluster that has one already.

With APPWRAPPER_TEST_KUBECONFIG set, the operator that runs in that cluster is tested, and none is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dev.image import sample_image
from dev.setup import prepare
from devcluster import Cluster
from devcluster.progress import Progress
from tests.commands import run
from tests.e2e.appwrappers.stories import GPU, QUEUE, Stories, pod, wrapper
from tests.e2e.jobs.conftest import WHERE
from tests.queues import queues

NAMESPACE = "appwrapper-e2e"
QUOTAS = {"cpu": "4", "memory": "4Gi", GPU: "4"}


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    given = os.environ.get("APPWRAPPER_TEST_KUBECONFIG")
    if given:
        return Path(given)
    progress = Progress()
    cluster = prepare(WHERE, progress)
    _deploy(cluster, progress)
    return cluster.kubeconfig_path


def _deploy(cluster: Cluster, progress: Progress) -> None:
    """The image of this checkout, by the commands of the README; it has been made for the hub already."""
    variables = published(cluster.kubeconfig_path)
    # Before all that takes time: Kueue looks for the CRD after 1, 3, 7, 15, 31 s …, ever more rarely.
    run("make", "install", **variables)
    cluster.load(sample_image(progress).archive, progress=progress)
    # The sample asks for a whole CPU: of a node with two, an operator of an earlier run leaves 10m too
    # little; the tests of jobs deploy theirs again.
    Stories(cluster.kubeconfig_path, WHERE.operator_namespace).run(
        "scale", "deployment/fournos", "--replicas=0", check=False
    )
    run("make", "docker-build", "kind-push", limit=300, **variables)
    run("make", "deploy", limit=400, **variables)


def published(kubeconfig: Path) -> dict[str, str]:
    """The variables with which the README's commands mean the hub; buildah makes the hub's very image."""
    return {"KUBECONFIG": str(kubeconfig), "CLUSTER": WHERE.cluster, "CONTAINER_TOOL": "buildah"}


@pytest.fixture(scope="session")
def stories(kubeconfig: Path) -> Iterator[Stories]:
    """A namespace with a queue of 4 CPUs, 4 Gi and 4 GPUs."""
    hub = Stories(kubeconfig, NAMESPACE)
    hub.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(queues(NAMESPACE, QUEUE, QUOTAS)))
    hub.queue_active(QUEUE)
    hub.run("delete", "appwrappers", "--all", "--timeout=180s")
    _await_kueue(hub)
    yield hub
    gone = ("--wait=false", "--ignore-not-found")
    hub.kubectl("delete", f"clusterqueue/{NAMESPACE}", f"resourceflavor/{NAMESPACE}", *gone)
    hub.kubectl("delete", "namespace", NAMESPACE, "--timeout=180s", check=False)
    for level in ("low", "high"):
        hub.kubectl("delete", "workloadpriorityclass", f"{NAMESPACE}-{level}", "--ignore-not-found")


def _await_kueue(hub: Stories) -> None:
    """Kueue's own integration begins when it finds the CRD, which takes it a minute or two."""
    hub.apply(wrapper("probe", pod("probe", "true")))
    hub.until(lambda: hub.list("workloads"), lambda: "Kueue does not see AppWrappers", timeout=180)
    hub.run("delete", "appwrapper", "probe", "--timeout=180s")
