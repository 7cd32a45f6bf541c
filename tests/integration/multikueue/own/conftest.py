"""A manager and a worker whose Kueue leaves AppWrappers to our operator, which makes the Workloads itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import devcluster
from devcluster import Cluster
from fournos.multikueue import names
from tests.integration.multikueue.conftest import CONTROLLERS, Fleet, take_down

CONFIG: dict[str, Any] = {
    "integrations": {
        "frameworks": ["batch/job"],
        "externalFrameworks": ["AppWrapper.v1beta2.workload.codeflare.dev"],
    },
}


@pytest.fixture(scope="package")
def clusters() -> Iterator[dict[str, Cluster]]:
    found = {
        name: devcluster.ensure(name, profile="control-plane", controllers=CONTROLLERS, kueue_config=CONFIG)
        for name in ("fournos-mk-own-manager", "fournos-mk-own-worker")
    }
    yield found
    take_down(found)


@pytest.fixture
async def fleet(sites: Fleet) -> AsyncIterator[Fleet]:
    """With our adapter, and the operator for AppWrappers on both."""
    await sites.furnish(controller=names.CONTROLLER)
    sites.start()
    await sites.staff("appwrappers", APPWRAPPER_WORKLOADS="own", APPWRAPPER_RETRY_PAUSE="1s")
    yield sites
    await sites.vanish()
