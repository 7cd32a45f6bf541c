"""A list of a hundred objects whose texts have a megabyte each is a page of ordinary size."""

from __future__ import annotations

import pytest

from fournos.web.pages import cluster, fleet, jobs, queue
from fournos.web.site import Page
from tests.unit.cli.api import Api
from tests.unit.cli.objects import job
from tests.unit.cli.objects import workload as workload_of
from tests.unit.cli.test_explain import world
from tests.unit.insight.test_overview import cluster as cluster_object
from tests.unit.web.calls import call, shown
from tests.unit.web.pages.test_fleet_pages import with_metadata

MEGABYTE = "x" * 2**20
ROWS = 100
MOST = 1_000_000
"""Characters of the page of a hundred rows."""


def crowded() -> Api:
    texts = {"owner": MEGABYTE, "displayName": MEGABYTE, "hardware": {"gpuType": MEGABYTE, "gpuCount": 1}}
    status = {"cluster": "cluster-1", "message": MEGABYTE}
    running = [job(f"run-{number}", "Running", spec=texts, status=status) for number in range(ROWS)]
    waiting = [
        job(f"wait-{number}", "Pending", spec=texts, status={"message": MEGABYTE}) for number in range(ROWS)
    ]
    lock = {"state": "Held", "owner": MEGABYTE, "behind": [MEGABYTE], "waiting": [MEGABYTE]}
    held = cluster_object("cluster-1", ("a100", 8), spec={"owner": MEGABYTE}, status={"lock": lock})
    held["status"]["connection"] = {"error": MEGABYTE}
    return world(*running, *waiting, workload_of("wait-1", cluster="cluster-1"), with_metadata(held))


@pytest.mark.parametrize(
    ("page", "path"),
    [(fleet.PAGE, {}), (cluster.PAGE, {"name": "cluster-1"}), (queue.PAGE, {}), (jobs.PAGE, {})],
    ids=["fleet", "cluster", "queue", "jobs"],
)
async def test_rows_are_cut(page: Page, path: dict[str, str]) -> None:
    html = await shown(page, call(crowded(), path=path))
    assert len(html) < MOST
    assert "xxx…" in html
