"""The interval, timeout and rate of requests to other clusters follow the settings."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fournos.app.parts import PARTS
from fournos.engine.kube import fleet as fleets
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.fleet import Fleet
from fournos.engine.runtime.metrics import Metrics
from tests.fakes.clusters import FakeCluster, FakeClusters, kubeconfig
from tests.multikueue_configuration import configuration
from tests.unit.engine.runtime.loop import LoopClock

pytestmark = pytest.mark.looptime

SERVER = "https://10.0.0.1:6443"


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", configuration("Foo.v1.example.com"))


class Clients(FakeClusters):
    """Stands in for the Client over HTTP."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(fleets, "Client", self.client)

    def client(
        self, credentials: Credentials, *, name: str, qps: float, timeout: float, **options: Any
    ) -> Any:
        return self.dial(name, credentials, timeout=timeout)


@asynccontextmanager
async def connected(name: str, cluster: FakeCluster) -> AsyncIterator[Fleet]:
    """The fleet of a part that is started with its settings, connected to one cluster."""
    part = PARTS[name]
    running = part.start(part.settings(), LoopClock(), Metrics(), lambda controller, key: None)
    (run,) = running.background.values()
    owner = run.__self__  # type: ignore[attr-defined]
    fleet = owner if isinstance(owner, Fleet) else owner.fleet
    task = asyncio.create_task(run())  # type: ignore[arg-type]
    await asyncio.sleep(0)
    fleet.connect("a", kubeconfig(SERVER), version="1")
    yield fleet
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def probe_every(part: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets reconcile_interval_sec of the clusters, or gcInterval of the workers: four times their probes'."""
    monkeypatch.setenv("HEARTH_RECONCILE_INTERVAL_SEC", str(seconds))
    file = configuration("Foo.v1.example.com", gcInterval=f"{4 * seconds}s")
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", file)


@pytest.mark.parametrize("seconds", [7, 200])
@pytest.mark.parametrize("part", ["clusters", "multikueue"])
async def test_how_often_a_cluster_is_probed(
    part: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spread by a tenth."""
    probe_every(part, seconds, monkeypatch)
    cluster = Clients(monkeypatch).add(SERVER)
    async with connected(part, cluster):
        await asyncio.sleep(10 * seconds)
    waits = [later - earlier for earlier, later in itertools.pairwise(cluster.times_of("version"))]
    assert len(waits) >= 8
    assert all(0.85 * seconds < wait < 1.15 * seconds for wait in waits), waits


@pytest.mark.parametrize(
    ("part", "seconds", "value"),
    [("clusters", 3, 3), ("clusters", 40, 40), ("multikueue", 3, 3), ("multikueue", 10, 40)],
)
async def test_how_long_an_answer_may_take(
    part: str, seconds: int, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gpu_discovery_timeout_sec of the clusters; of the workers the interval, ten seconds at most."""
    probe_every(part, value, monkeypatch)
    monkeypatch.setenv("HEARTH_RECONCILE_INTERVAL_SEC", "60")
    monkeypatch.setenv("HEARTH_GPU_DISCOVERY_TIMEOUT_SEC", str(value))
    cluster = Clients(monkeypatch).add(SERVER)
    cluster.silent = True
    async with connected(part, cluster) as fleet:
        await asyncio.sleep(seconds - 0.5)
        assert fleet.probe("a") is None
        await asyncio.sleep(1)
        found = fleet.probe("a")
        assert found is not None and found.reason == "Timeout"
