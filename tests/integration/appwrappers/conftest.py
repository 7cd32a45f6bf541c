"""A stage for AppWrappers, with an operator that works for all namespaces.

Here Kueue's own AppWrapper integration is on, as it is by default; the packages below have other clusters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import CLUSTER_QUEUE
from tests.integration.appwrappers.kubelet import Kubelet
from tests.integration.appwrappers.stage import AppWrapperStage
from tests.integration.conftest import Server
from tests.integration.jobs.operator import Operator


@pytest.fixture(scope="module")
def workloads() -> str:
    """Who makes them."""
    return "kueue"


@pytest.fixture(scope="module")
def started(
    kubeconfig: Path, workloads: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Operator]]:
    """One operator for all tests of a module, as it serves every namespace.

    It is started by the first call, when a test has installed the CRDs.
    """

    @cache
    def operator() -> Operator:
        log = tmp_path_factory.mktemp("operator") / "operator.log"
        return Operator(kubeconfig, "default", log, enable="appwrappers", settings=settings(workloads))

    yield operator
    if operator.cache_info().currsize:
        operator().stop()


def settings(workloads: str, *, namespace: str = "default") -> dict[str, str]:
    return {"APPWRAPPER_WORKLOADS": workloads, "APPWRAPPER_NAMESPACE": namespace}


@pytest.fixture
async def prepared(
    server: Server, client: Client, crds: None, namespace: str
) -> AsyncIterator[AppWrapperStage]:
    """Without an operator."""
    async with Kubelet(client, namespace).working() as kubelet:
        stage = AppWrapperStage(namespace, client, server, kubelet)
        await stage.set_up()
        yield stage
    await client.delete(CLUSTER_QUEUE, Key("", namespace))


@pytest.fixture
async def stage(prepared: AppWrapperStage, started: Callable[[], Operator]) -> AppWrapperStage:
    operator = started()
    prepared.tail = operator.tail
    await operator.ready()
    return prepared
