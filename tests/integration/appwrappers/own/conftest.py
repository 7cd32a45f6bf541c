"""A control plane whose Kueue leaves AppWrappers to us: its own integration is off, ours is on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import devcluster

NAME = "fournos-test-appwrappers"
CONFIG: dict[str, Any] = {
    "integrations": {
        "frameworks": ["batch/job"],
        "externalFrameworks": ["AppWrapper.v1beta2.workload.codeflare.dev", "FournosJob.v1.fournos.dev"],
    },
}


@pytest.fixture(scope="package")
def kubeconfig() -> Iterator[Path]:
    yield devcluster.ensure(NAME, profile="control-plane", kueue_config=CONFIG).kubeconfig_path
    devcluster.down(NAME)


@pytest.fixture(scope="module")
def workloads() -> str:
    return "own"
