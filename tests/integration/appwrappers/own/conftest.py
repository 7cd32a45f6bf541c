"""A control plane whose Kueue leaves AppWrappers to us: its own integration is off, ours is on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import devcluster
from fournos.kube.client import Client
from fournos.kube.resource import Key
from fournos.queueing.kinds import CLUSTER_QUEUE
from tests.integration.appwrappers.kubelet import Kubelet
from tests.integration.appwrappers.stage import Stage
from tests.integration.conftest import Server
from tests.integration.jobs.operator import Operator

NAME = "fournos-test-appwrappers"
PODS_READY_WITHIN = 5
CONFIG: dict[str, Any] = {
    "integrations": {
        "frameworks": ["batch/job"],
        "externalFrameworks": ["AppWrapper.v1beta2.workload.codeflare.dev", "FournosJob.v1.fournos.dev"],
    },
    "waitForPodsReady": {
        "timeout": f"{PODS_READY_WITHIN}s",
        "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffMaxSeconds": 2, "backoffLimitCount": 1},
    },
}
OWN = {"APPWRAPPER_WORKLOADS": "own", "APPWRAPPER_NAMESPACE": "default", "APPWRAPPER_RETRY_PAUSE": "1s"}


@pytest.fixture(scope="session")
def kubeconfig() -> Iterator[Path]:
    yield devcluster.ensure(NAME, profile="control-plane", kueue_config=CONFIG).kubeconfig_path


@pytest.fixture(scope="module")
def operator(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One for all tests of a module: it serves every namespace."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    found = Operator(kubeconfig, "default", log, enable="appwrappers", settings=OWN)
    yield found
    found.stop()


@pytest.fixture
async def furnished(server: Server, client: Client, crds: None, namespace: str) -> AsyncIterator[Stage]:
    """Without an operator."""
    async with Kubelet(client, namespace).working() as kubelet:
        stage = Stage(namespace, client, server, kubelet)
        await stage.furnish()
        yield stage
    await client.delete(CLUSTER_QUEUE, Key("", namespace))


@pytest.fixture
async def stage(furnished: Stage, operator: Operator) -> Stage:
    furnished.tail = operator.tail
    await operator.ready()
    return furnished
