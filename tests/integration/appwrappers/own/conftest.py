"""A Kueue that leaves AppWrappers to us: its own integration is off, ours is on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import kueue_configured

CONFIG: dict[str, Any] = {
    "integrations": {
        "frameworks": ["batch/job"],
        "externalFrameworks": ["AppWrapper.v1beta2.workload.codeflare.dev", "FournosJob.v1.fournos.dev"],
    },
}


@pytest.fixture(scope="package")
def kubeconfig() -> Iterator[Path]:
    with kueue_configured(CONFIG) as path:
        yield path


@pytest.fixture(scope="module")
def workloads() -> str:
    return "own"
