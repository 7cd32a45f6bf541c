"""helm, and the chart as it renders it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dev.go_tools import HELM, ensure
from dev.image import ROOT
from dev.release import CHART
from dev.release_install import Document, identity
from devcluster import manifests
from devcluster.progress import Progress

# A helm that is built as a module takes a cluster for one of 1.20 unless it is told or asks it.
TEMPLATE = ("template", "fournos", ROOT / CHART, "--kube-version", "1.36.0", "--skip-tests")
Rendered = dict[tuple[str, str, str, str], Document]
Render = Callable[..., Rendered]


def run(helm: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *words], capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="session")
def helm() -> Path:
    return ensure(HELM, Progress())


@pytest.fixture(scope="session")
def render(helm: Path) -> Render:
    def rendered(*values: str, namespace: str = "fournos-operator") -> Rendered:
        """`values`: as for --set-json."""
        options = [word for value in values for word in ("--set-json", value)]
        done = run(helm, *TEMPLATE, "--namespace", namespace, *options)
        assert done.returncode == 0, done.stderr
        return {identity(item): item for item in manifests.parse(done.stdout) if item}

    return rendered
