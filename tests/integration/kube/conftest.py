"""A fault proxy before the tests' API server, and a client behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from tests.faults.proxy import FaultProxy


@pytest.fixture(params=[False, True], ids=["http", "tls"])
async def proxy(request: pytest.FixtureRequest, kubeconfig: Path) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(kubeconfig, tls=request.param) as running:
        yield running


@pytest.fixture
async def client(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Client]:
    """Reaches the API server through the proxy."""
    async with Client(load(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))) as client:
        yield client


@pytest.fixture
async def direct(kubeconfig: Path) -> AsyncIterator[Client]:
    """Reaches the API server past the proxy."""
    async with Client(load(kubeconfig)) as client:
        yield client
