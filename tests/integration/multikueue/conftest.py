"""Clusters and namespaces of the tests of MultiKueue; `fleet` has what is in them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from devcluster import Cluster
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.systems.multikueue import names
from tests.integration.conftest import take_down
from tests.integration.multikueue.fleet import (
    MANAGER,
    MANAGER_CONFIG,
    WORKER_CONFIG,
    WORKERS,
    Fleet,
    Site,
    bring_up,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Kueue's own adapter does changes with Kueue's version, not with the product."""
    for item in items:
        if isinstance(item, pytest.Function) and "built_in" in item.fixturenames:
            item.add_marker(pytest.mark.setup)


@pytest.fixture(scope="package")
def clusters() -> Iterator[dict[str, Cluster]]:
    """The clusters, the manager cluster first; its Kueue has the same kinds for its own adapter."""
    found = bring_up({MANAGER: MANAGER_CONFIG, **dict.fromkeys(WORKERS, WORKER_CONFIG)})
    yield found
    take_down(found)


@pytest.fixture
async def sites(clusters: dict[str, Cluster], tmp_path: Path) -> AsyncIterator[Fleet]:
    namespace = f"mk-{uuid.uuid4().hex[:6]}"
    async with AsyncExitStack() as stack:
        found = {}
        for name, cluster in clusters.items():
            client = await stack.enter_async_context(
                Client(load(cluster.kubeconfig_path), qps=500, burst=1000)
            )
            found[name] = Site(name, cluster, client, namespace)
        manager, *rest = found.values()
        yield Fleet(manager, {f"w{number}": site for number, site in enumerate(rest, start=1)}, tmp_path)


@pytest.fixture
async def fleet(sites: Fleet) -> AsyncIterator[Fleet]:
    """With our adapter's AdmissionCheck; the operator is not started yet."""
    await sites.set_up(controller=names.CONTROLLER)
    yield sites
    await sites.tear_down()


@pytest.fixture
async def built_in(sites: Fleet) -> AsyncIterator[Fleet]:
    """With the AdmissionCheck of Kueue's own adapter, which has connected to all workers.

    Kueue leaves out a worker while it connects, and waits 5, 10, 20 s … after each attempt that fails.
    """
    await sites.set_up(controller=names.MULTIKUEUE)
    await sites.connected()
    yield sites
    await sites.tear_down()
