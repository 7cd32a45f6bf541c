"""A manager and a worker whose Kueue leaves AppWrappers to our operator, which makes the Workloads itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from devcluster import Cluster
from fournos.systems.multikueue import names
from tests.integration.jobs.operator import Operator
from tests.integration.multikueue.fleet import (
    MANAGER,
    MANAGER_CONFIG,
    WORKER_CONFIG,
    WORKERS,
    Fleet,
    bring_up,
    hired,
)

CONFIG: dict[str, Any] = {
    "integrations": {
        "frameworks": ["batch/job"],
        "externalFrameworks": ["AppWrapper.v1beta2.workload.codeflare.dev"],
    },
}


@pytest.fixture(scope="package")
def clusters() -> Iterator[dict[str, Cluster]]:
    """Two of the fleet's: only their Kueues are started anew, and again for the tests that follow."""
    yield bring_up(dict.fromkeys((MANAGER, WORKERS[0]), CONFIG))
    bring_up({MANAGER: MANAGER_CONFIG, WORKERS[0]: WORKER_CONFIG})


@pytest.fixture(scope="package")
def staff(clusters: dict[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Operator]]:
    """The operator for AppWrappers on both."""
    with hired(
        clusters, tmp_path_factory.mktemp("staff"), "appwrappers", APPWRAPPER_WORKLOADS="own"
    ) as found:
        yield found


@pytest.fixture
async def fleet(sites: Fleet, staff: list[Operator]) -> AsyncIterator[Fleet]:
    """With our adapter."""
    sites.shared = staff
    await sites.set_up(controller=names.CONTROLLER)
    sites.start()
    await sites.active()
    yield sites
    await sites.tear_down()
