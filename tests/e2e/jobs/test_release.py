"""docs/install.md on a cluster: `kubectl apply -f install-fournos.yaml`, and the first job to its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dev.image import operator_image
from dev.release import ROOT, Source, installs
from dev.release_install import JOBS_NAMESPACE
from devcluster import manifests
from devcluster.progress import Progress
from fournos.systems.jobs.part import OPERATOR_NAMESPACE
from tests.e2e.hub import Hub

FIRST_JOB = ROOT / "samples" / "first-job.yaml"


@pytest.fixture
def installed(hub: Hub, operator_in_cluster: None, tmp_path: Path) -> Iterator[Hub]:
    """The operator of this checkout in the namespace that a release makes; its image is in the cluster."""
    repository = operator_image(Progress()).tag
    source = Source(ROOT, 0, repository.rpartition(":")[0])
    installs(source, tmp_path)
    path = tmp_path / "install-fournos.yaml"
    path.write_text(path.read_text().replace(source.image, repository))
    fresh = replace(hub, namespace=JOBS_NAMESPACE, operator_namespace=OPERATOR_NAMESPACE)
    fresh.kubectl("apply", "-f", str(path))
    yield fresh
    fresh.run("delete", "-f", str(FIRST_JOB), "--ignore-not-found")
    # What is in the namespace goes with it; CRDs and Kueue's readers are the other operators', too.
    own = {"Namespace", "ClusterRoleBinding", "ValidatingWebhookConfiguration"}
    going = [
        item
        for item in manifests.parse(path.read_text())
        if item["kind"] in own and item["metadata"]["name"] != "psap-secrets"
    ]
    fresh.kubectl("delete", "-f", "-", "--wait=false", stdin=yaml.safe_dump_all(going))


def test_an_installation_runs_its_first_job(installed: Hub) -> None:
    installed.operator.run("rollout", "status", "deployment/fournos", "--timeout=150s", timeout=180.0)
    installed.run("apply", "-f", str(FIRST_JOB))
    assert installed.wait("first", timeout=180)["phase"] == "Succeeded"
    (pod,) = installed.task_pods("first").values()
    assert "Hello from first" in installed.run("logs", pod["metadata"]["name"], "--all-containers")
