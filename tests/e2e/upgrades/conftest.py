"""A cluster on which the release before and this one are installed by their install files, in turns."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.go_tools import HELM, ensure
from dev.image import BUILD, ROOT, operator_image
from dev.release import CHART, Source, installs
from dev.release_chart import pack
from dev.rollout import await_rollout
from dev.setup import Where, prepare
from devcluster import manifests, system
from devcluster.progress import Progress
from fournos import __version__
from tests.e2e.hub import CLUSTER, Hub
from tests.fakes.flux_image import flux_image

WHERE = Where(cluster=CLUSTER, namespace="fournos", operator_namespace="fournos-operator")
"""The namespaces of the install files."""
CLUSTERS = "hearth"
"""The namespace of FournosClusters."""
BEFORE = ROOT / "tests" / "data" / "release-0.1.0"


PAGE = ROOT / "docs" / "upgrade.md"


@dataclass(frozen=True)
class Release:
    """The install file of a version, with the image that is in the cluster for the one that it names."""

    text: str
    image: str

    def await_rollouts(self, hub: Hub) -> None:
        for item in manifests.parse(self.text):
            if item["kind"] == "Deployment":
                meta = item["metadata"]
                await_rollout(Hub(hub.kubeconfig, meta["namespace"]).run, meta["name"], limit=180)


@dataclass(frozen=True)
class Administrator:
    """Who has the files of both releases in a folder, and runs the lines of docs/upgrade.md there."""

    hub: Hub
    folder: Path

    def __call__(self, heading: str, *only: str) -> None:
        """Runs the blocks below a heading; `only` are those that contain one of these words."""
        section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        blocks = re.findall(r"^```bash\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        chosen = [block for block in blocks if any(word in block for word in only)] if only else blocks
        assert chosen, f"docs/upgrade.md has nothing to run below {heading!r}"
        for block in chosen:
            done = subprocess.run(
                ["bash", "-ec", block],
                cwd=self.folder,
                env={**os.environ, "KUBECONFIG": str(self.hub.kubeconfig)},
                capture_output=True,
                text=True,
                check=False,
                timeout=400,
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="package")
def before() -> Release:
    """The release before, by an image of the commit that it was made from."""
    tree = BUILD / BEFORE.name
    if not (tree / "pyproject.toml").is_file():
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
    return Release(text.replace("quay.io/rh_perfscale/fournos:0.1.0", image), image)


def _unpack(commit: str, tree: Path) -> None:
    system.ensure_packages([system.RELEASE_PACKAGES], Progress())
    archive = ["git", "archive", "--format=tar", commit]
    done = subprocess.run(archive, cwd=ROOT, capture_output=True, check=False, timeout=60)
    if done.returncode:
        pytest.skip(f"this checkout has no commit {commit[:12]} of the release before: git fetch --unshallow")
    # One that was interrupted is no tree.
    unfinished = tree.with_name(f"{tree.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        tar.extractall(unfinished, filter="data")
    unfinished.replace(tree)


@pytest.fixture(scope="package")
def after(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """This checkout."""
    image, folder = operator_image(Progress()).tag, tmp_path_factory.mktemp("install")
    source = Source(ROOT, 0, image.rpartition(":")[0])
    installs(source, folder)
    return Release((folder / "install.yaml").read_text().replace(source.image, image), image)


@pytest.fixture(scope="package")
def administrator(
    hub: Hub, before: Release, after: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Administrator]:
    folder = tmp_path_factory.mktemp("releases")
    (folder / "install-0.1.0.yaml").write_text(before.text)
    (folder / "install.yaml").write_text(after.text)
    chart = Path(shutil.copytree(ROOT / CHART, folder / "chart"))
    repository, _, tag = after.image.rpartition(":")
    values = (chart / "values.yaml").read_text()
    (chart / "values.yaml").write_text(values.replace("tag: ''", f"tag: {tag}"))
    pack(chart, folder / f"fournos-{__version__}.tgz", made=0, repository=repository)
    (folder / "bin").mkdir()
    (folder / "bin" / "helm").symlink_to(ensure(HELM, Progress()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        yield Administrator(hub, folder)


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
    for kind in ("fournosjobs", "appwrappers", "miniclusters"):
        hub.run("delete", kind, "--all", "--timeout=120s")
    hub.kubectl("delete", "fournosclusters", "--all", "-n", CLUSTERS, "--timeout=120s")
    for namespace in (WHERE.namespace, WHERE.operator_namespace):
        hub.kubectl("delete", "namespace", namespace, "--timeout=120s")
