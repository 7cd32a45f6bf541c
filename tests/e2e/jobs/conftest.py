"""The hub of these tests: a full local cluster with the operator in it, or one that runs already.

With FOURNOS_NAMESPACE set, the operator that runs in that namespace is tested and none is started; KUBECONFIG
names its cluster, else the development cluster is meant (the Fournos README's second terminal).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import operator
from dev.image import operator_image
from dev.setup import DEV_CLUSTER, Where, prepare
from devcluster.progress import Progress
from devcluster.state import require
from tests.e2e.hub import CLUSTER, Hub

WHERE = Where(
    cluster=CLUSTER,
    namespace="fournos-e2e",
    secrets_namespace="fournos-e2e-secrets",
    operator_namespace="fournos-e2e-operator",
)
SLEEP = "fournos-mock-config"


@pytest.fixture(scope="session")
def given_namespace() -> str:
    """Returns the namespace of an operator that runs already; "" if the tests start one."""
    return os.environ.get("FOURNOS_NAMESPACE", "")


@pytest.fixture(scope="session")
def operator_image_tag(hub: Hub, operator_in_cluster: None) -> str:
    """The image of this checkout, loaded into the hub."""
    return operator_image(Progress()).tag


@pytest.fixture(scope="session")
def hub(given_namespace: str) -> Iterator[Hub]:
    if given_namespace:
        secrets = os.environ.get("FOURNOS_SECRETS_NAMESPACE", "psap-secrets")
        found = os.environ.get("KUBECONFIG")
        kubeconfig = Path(found) if found else require(DEV_CLUSTER).kubeconfig
        hub = Hub(kubeconfig, given_namespace, secrets)
    else:
        progress = Progress()
        cluster = prepare(WHERE, progress)
        image = operator_image(progress)
        cluster.load(image.archive, progress=progress)
        operator.deploy(cluster, image, WHERE)
        hub = Hub(
            cluster.kubeconfig_path,
            WHERE.namespace,
            WHERE.secrets_namespace,
            operator_namespace=WHERE.operator_namespace,
        )
    _clean(hub)
    yield hub
    _clean(hub)


@pytest.fixture(scope="session")
def operator_in_cluster(given_namespace: str) -> None:
    if given_namespace:
        pytest.skip("the operator under test was started by hand: its processes are not ours to kill")


@pytest.fixture
def slow(hub: Hub) -> Iterator[None]:
    """Mock runs take two minutes instead of seconds, so that something can happen to them."""
    _sleep(hub, "120")
    yield
    _sleep(hub, "1")


def _sleep(hub: Hub, seconds: str) -> None:
    hub.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": SLEEP},
            "data": {"sleep": seconds},
        }
    )


def _clean(hub: Hub) -> None:
    """No jobs of earlier runs; nothing else in the namespace is touched."""
    hub.run("delete", "fournosjobs", "-l", "!fournos.dev/cluster-lock", "--wait=false")
    names = [job["metadata"]["name"] for job in hub.list("fournosjobs")]
    for name in names:
        hub.run(
            "patch",
            "fournosjob",
            name,
            "--type=merge",
            "-p",
            '{"spec":{"shutdown":"Terminate"}}',
            check=False,
        )
    hub.until(lambda: not hub.list("fournosjobs"), lambda: "jobs of an earlier run do not go", timeout=180)
    hub.until(lambda: not hub.list("pods", selector="fournos.dev/job-name"), lambda: "pods stay", timeout=120)
    _sleep(hub, "1")
