"""The page in a real browser, served for a real cluster where jobs have run and their history is kept.

It is the cluster of tests/e2e/jobs.  Tests are synchronous: Playwright has an event loop of its own in this
thread from the first of these tests to the last.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from devcluster import browser as chromium
from tests.e2e.history import archived, deployed, measuring
from tests.e2e.hub import MOCK_JOB, Hub
from tests.e2e.jobs.conftest import (  # noqa: F401 - fixtures
    given_namespace,
    hub,
    operator_image_tag,
    operator_in_cluster,
)
from tests.e2e.jobs.test_lifecycle import pipeline
from tests.e2e.web.served import Served
from tests.e2e.web.tab import LIMIT, PHONE, WIDE, Tab

DONE, BROKEN, RUNS, WAITS = "web-done", "web-broken", "web-runs", "web-waits"
"""The jobs that every test finds; a test that changes a job submits its own."""

CLUSTER = "cluster-2"
SCHEDULE = "web-nightly"
CLUSTERS = "hearth"
"""A FournosCluster that no operator looks at, and its namespace."""

OpenTab = Callable[..., Tab]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = chromium.program()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=chromium.arguments(), timeout=LIMIT)
        yield found
        found.close()


@pytest.fixture(scope="package")
def history(hub: Hub, operator_image_tag: str) -> Iterator[None]:  # noqa: F811 - fixtures
    with deployed(hub, operator_image_tag):
        yield


@pytest.fixture(scope="package")
def world(hub: Hub, history: None, operator_image_tag: str) -> Hub:  # noqa: F811 - fixtures
    """One job that has results and files, one that failed, one that runs, and one that waits for it."""
    hub.apply(
        measuring(operator_image_tag),
        pipeline("web-fails", "echo before; echo ERROR: no such model >&2; exit 7"),
        pipeline("web-sleeps", "while true; do date; sleep 1; done"),
    )
    hub.kubectl("wait", "--for=condition=Established", "crd/fournosclusters.fournos.dev", "--timeout=60s")
    hub.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLUSTERS}},
        {
            "apiVersion": "fournos.dev/v1",
            "kind": "FournosCluster",
            "metadata": {"name": CLUSTER, "namespace": CLUSTERS},
            "spec": {"kubeconfigSecret": f"kubeconfig-{CLUSTER}"},
        },
        namespace=CLUSTERS,
    )
    hub.apply(
        {
            "apiVersion": "fournos.dev/v1",
            "kind": "FournosSchedule",
            "metadata": {"name": SCHEDULE},
            "spec": {
                "schedules": ["0 2 * * *"],
                "timeZone": "Europe/Berlin",
                "jobTemplate": {"spec": {**MOCK_JOB, "pipeline": "measuring"}},
            },
        }
    )
    hub.submit(RUNS, pipeline="web-sleeps", cluster="cluster-2", exclusive=True, owner="ann")
    hub.submit(DONE, pipeline="measuring", owner="ann")
    hub.submit(BROKEN, pipeline="web-fails", owner="ben")
    hub.wait(RUNS, ["Running"], timeout=180)
    hub.submit(WAITS, cluster="cluster-2", exclusive=True, owner="cho")
    assert hub.wait(DONE, timeout=180)["phase"] == "Succeeded"
    assert hub.wait(BROKEN, timeout=180)["phase"] == "Failed"
    hub.wait(WAITS, ["Pending"])
    archived(hub, DONE, BROKEN)
    return hub


@pytest.fixture(scope="package")
def local(world: Hub, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`fournos web`, with the rights of the cluster's administrator."""
    log = tmp_path_factory.mktemp("web") / "log"
    words = ["-n", world.namespace, "web", "--port", "0", "--no-browser"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "fournos", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(world.kubeconfig), "FOURNOS_OWNER": "ann"},
        )
    try:
        world.until(lambda: process.poll() is not None or "/open/" in log.read_text(), log.read_text)
        address = log.read_text().split()[0]
        context = browser.new_context()
        context.new_page().goto(address, timeout=LIMIT)
        state = context.storage_state()
        context.close()
        yield Served(address.partition("/open/")[0], state)
    finally:
        process.terminate()
        process.wait(timeout=30)
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture
def open_tab(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenTab]:
    """Opens tabs of somebody; `served` is another server than `fournos web`.

    Each is in a browser of its own, with `beside` in the browser of that tab.  At the end of the test each
    must be without errors: see `Tab.expected`.
    """
    tabs: list[Tab] = []

    def open(
        path: str = "/",
        *,
        served: Served | None = None,
        phone: bool = False,
        beside: Tab | None = None,
        **options: Any,
    ) -> Tab:
        served = served or request.getfixturevalue("local")
        if beside:
            tab = beside.beside()
        else:
            size = PHONE if phone else WIDE
            context = browser.new_context(
                storage_state=served.state, extra_http_headers=served.headers, viewport=size, **options
            )
            tab = Tab.open(context, served.base)
        tabs.append(tab)
        if path:
            tab.goto(path)
        return tab

    yield open
    problems = [tab.closed() for tab in tabs]
    for tab in tabs:
        tab.context.close()
    assert not any(problems), problems
