"""What the AppWrapper README publishes beside `make docker-build kind-push deploy`, which the fixtures run.

The last of them, since they end the operator of all others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.commands import run, running
from tests.e2e.appwrappers.conftest import published
from tests.e2e.appwrappers.stories import Stories, pod, wrapper

pytestmark = pytest.mark.skipif(
    "APPWRAPPER_TEST_KUBECONFIG" in os.environ,
    reason="the operator under test was deployed by hand, and stays",
)
CRD = "appwrappers.workload.codeflare.dev"


@pytest.fixture
def here(kubeconfig: Path) -> Iterator[tuple[Stories, dict[str, str]]]:
    """The namespace that `make run` uses; the CRD is there again afterwards, for which Kueue looks seldom."""
    variables = published(kubeconfig)
    yield Stories(kubeconfig, "default"), variables
    run("make", "install", **variables)


def test_the_stories_run_against_a_deployed_operator(here: tuple[Stories, dict[str, str]]) -> None:
    _, variables = here
    words = ("-q", "-p", "no:cacheprovider", "-k", "test_the_walk_through_of_the_readme")
    assert "1 passed" in run("hack/run-tests-on-cluster.sh", *words, **variables)


def test_undeploy_install_run_and_uninstall(here: tuple[Stories, dict[str, str]]) -> None:
    hub, variables = here
    run("make", "undeploy", **variables)
    assert not hub.exists("crd", CRD)
    assert not hub.exists("namespace", "appwrapper-system")
    assert not hub.exists("mutatingwebhookconfiguration", "appwrapper-mutating-webhook-configuration")

    run("make", "install", **variables)
    own = wrapper("published", pod("published", "sleep 2"))
    own["metadata"]["labels"] = {}  # of no queue: Kueue has no part in it
    own["spec"]["suspend"] = False
    with running("make", "run", **variables):
        hub.run("create", "-f", "-", stdin=yaml.safe_dump(own))
        hub.phase("published", "Succeeded")
        run("make", "uninstall", **variables)
    assert not hub.exists("crd", CRD)
    assert not hub.exists("pod", "published")
