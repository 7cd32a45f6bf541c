"""A cluster on which the release before and this one are installed by their install files, in turns."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.image import BUILD, ROOT, operator_image
from dev.release import Source, installs
from dev.rollout import await_rollout
from dev.setup import Where, prepare
from devcluster import manifests
from devcluster.progress import Progress
from tests.e2e.hub import CLUSTER, Hub
from tests.fakes.flux_image import flux_image

WHERE = Where(cluster=CLUSTER, namespace="fournos", operator_namespace="fournos-operator")
"""The namespaces of the install files."""
CLUSTERS = "hearth"
"""The namespace of FournosClusters."""
BEFORE = ROOT / "tests" / "data" / "release-0.1.0"


@dataclass(frozen=True)
class Release:
    """A version: its install file, and the image that is in the cluster in place of the one that it names."""

    name: str
    text: str
    image: str

    def install(self, hub: Hub) -> None:
        """`kubectl apply -f install.yaml`; returns when all its operators have rolled out."""
        hub.kubectl("apply", "-f", "-", stdin=self.text)
        for item in manifests.parse(self.text):
            if item["kind"] == "Deployment":
                meta = item["metadata"]
                in_namespace = Hub(hub.kubeconfig, meta["namespace"])
                await_rollout(in_namespace.run, meta["name"], limit=180)


@pytest.fixture(scope="package")
def before() -> Release:
    """The release before, by an image of the commit that it was made from."""
    tree = BUILD / BEFORE.name
    if not (tree / "pyproject.toml").is_file():
        tree.mkdir(parents=True, exist_ok=True)
        _unpack((BEFORE / "COMMIT").read_text().strip(), tree)
    done = subprocess.run(
        [sys.executable, "-m", "dev.image"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    image, _ = done.stdout.split()[-2:]
    text = (BEFORE / "install.yaml").read_text()
    return Release("before", text.replace("quay.io/rh_perfscale/fournos:0.1.0", image), image)


def _unpack(commit: str, tree: Path) -> None:
    archive = ["git", "archive", "--format=tar", commit]
    done = subprocess.run(archive, cwd=ROOT, capture_output=True, check=False, timeout=60)
    if done.returncode:
        pytest.skip(f"this checkout has no commit {commit[:12]} of the release before: git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        tar.extractall(tree, filter="data")


@pytest.fixture(scope="package")
def after(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """This checkout."""
    image, folder = operator_image(Progress()).tag, tmp_path_factory.mktemp("install")
    source = Source(ROOT, 0, image.rpartition(":")[0])
    installs(source, folder)
    return Release("after", (folder / "install.yaml").read_text().replace(source.image, image), image)


@pytest.fixture(scope="package")
def hub(before: Release, after: Release) -> Iterator[Hub]:
    progress = Progress()
    cluster = prepare(WHERE, progress)
    for archive in (
        BUILD / BEFORE.name / "build" / "operator.tar",
        operator_image(progress).archive,
        flux_image(progress).archive,
    ):
        cluster.load(archive, progress=progress)
    hub = Hub(cluster.kubeconfig_path, WHERE.namespace, operator_namespace=WHERE.operator_namespace)
    yield hub
    after.install(hub)
    for kind in ("fournosjobs", "appwrappers", "miniclusters"):
        hub.run("delete", kind, "--all", "--timeout=120s")
    hub.kubectl("delete", "fournosclusters", "--all", "-n", CLUSTERS, "--timeout=120s")
    for namespace in (WHERE.namespace, WHERE.operator_namespace):
        hub.kubectl("delete", "namespace", namespace, "--timeout=120s")
