"""The same with a Kueue that waits for pods, and not for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.appwrappers.own.conftest import CONFIG
from tests.integration.conftest import kueue_configured

PODS_READY_WITHIN = 5
STRATEGY = {"backoffBaseSeconds": 5, "backoffMaxSeconds": 5, "backoffLimitCount": 1}
"""The backoff is as long as each state in between must last to be seen."""
WAITS = {"timeout": f"{PODS_READY_WITHIN}s", "requeuingStrategy": STRATEGY}


@pytest.fixture(scope="package")
def kubeconfig() -> Iterator[Path]:
    with kueue_configured({**CONFIG, "waitForPodsReady": WAITS}) as path:
        yield path


@pytest.fixture(scope="module")
def workloads() -> str:
    return "own"
