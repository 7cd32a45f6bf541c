"""The Helm chart on a real cluster: installed, tried, changed, taken back, removed; the shipped page in pods.

What stands there already becomes the release's, and ends with it: only the upgrade tests, which install all,
come after it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.chart import VALUES
from dev.go_tools import HELM, ensure
from dev.image import ROOT, operator_image
from dev.release import CHART
from devcluster import Cluster
from devcluster import ensure as ensure_cluster
from devcluster.progress import Progress
from devcluster.state import require
from tests.e2e.hub import CLUSTER, Hub

OPERATOR, JOBS, SECRETS = "chart-operator", "chart-jobs", "chart-secrets"
INSTALLED = ("jobs", "history", "web")


@dataclass(frozen=True)
class Helm:
    program: Path
    kubeconfig: Path

    def __call__(self, *words: str | Path) -> str:
        done = subprocess.run(
            [self.program, *words, "--namespace", OPERATOR],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def hub() -> Hub:
    given = os.environ.get("FOURNOS_E2E_CLUSTER")
    cluster = Cluster(require(given)) if given else ensure_cluster(CLUSTER, profile="full")
    cluster.load(operator_image(Progress()).archive, progress=Progress())
    return Hub(cluster.kubeconfig_path, JOBS)


@pytest.fixture(scope="module")
def helm(hub: Hub) -> Helm:
    return Helm(ensure(HELM, Progress()), hub.kubeconfig)


@pytest.fixture(scope="module")
def values() -> list[str]:
    """Three systems, in namespaces of other names, with the image of this checkout."""
    repository, _, tag = operator_image(Progress()).tag.rpartition(":")
    chosen = {
        "image": {"repository": repository, "tag": tag},
        "namespaces": {"operator": OPERATOR, "jobs": JOBS, "secrets": SECRETS},
        **{name: {"enabled": name in INSTALLED} for name in VALUES.values()},
    }
    return [word for name, value in chosen.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]


@pytest.fixture(scope="module")
def release(hub: Hub, helm: Helm, values: list[str]) -> Iterator[str]:
    options = ("--create-namespace", "--take-ownership", "--wait", "--timeout=240s")
    yield helm("install", "fournos", ROOT / CHART, *options, *values)
    for namespace in (OPERATOR, JOBS, SECRETS, "fournos-history", "fournos-web"):
        hub.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")


def replicas(hub: Hub) -> int:
    return int(hub.kubectl("get", "deployment", "fournos", "-n", OPERATOR, "-o", "jsonpath={.spec.replicas}"))


def test_a_first_job_succeeds_and_the_history_has_it(release: str, hub: Hub, helm: Helm) -> None:
    """The history writes to its volume, and the page is ready: Helm has waited for all pods."""
    assert f"helm test fournos -n {OPERATOR}" in release, "it says what comes next"
    helm("test", "fournos", "--timeout", "120s")
    (job,) = hub.list("fournosjobs")
    assert job["status"]["phase"] == "Succeeded"
    hub.until(
        lambda: hub.status(job["metadata"]["name"]).get("archivedAt"),
        lambda: hub.kubectl("logs", "-n", "fournos-history", "deployment/fournos-history", "--tail=30"),
    )


def test_a_change_is_taken_back(release: str, hub: Hub, helm: Helm, values: list[str]) -> None:
    before = replicas(hub)
    helm("upgrade", "fournos", ROOT / CHART, *values, "--set", "jobs.replicas=1", "--wait", "--timeout=240s")
    assert (before, replicas(hub)) == (2, 1)
    helm("rollback", "fournos", "1")
    assert replicas(hub) == 2


def test_jobs_and_crds_outlive_the_release(release: str, hub: Hub, helm: Helm) -> None:
    helm("uninstall", "fournos", "--wait", "--timeout=240s")
    (job,) = hub.list("fournosjobs")
    assert job["status"]["phase"] == "Succeeded"
    left = hub.kubectl("get", "deployments,services", "-n", OPERATOR, "-o", "name")
    assert not left.strip(), left
