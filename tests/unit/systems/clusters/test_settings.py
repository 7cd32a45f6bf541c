"""Each setting has its effect; how often and how long clusters are probed: tests/unit/app/test_fleets.py."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournoscluster import DEFINITION
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.app.parts import TABLE
from fournos.engine.api.crd import crd
from fournos.engine.kube.resource import SECRET, Key, key_of
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.clusters.metrics import report
from fournos.systems.clusters.settings import ClusterSettings
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import SECRETS, SLOT, cluster, edit, hub, node, quotas, secret, target
from tests.world.group import Group
from tests.world.harness import run_to_quiescence
from tests.world.server import Server


async def play(
    settings: ClusterSettings, setup: Any, *, horizon: float = 900.0, queue: str = actors.QUEUE.name
) -> Server:
    server = Server()
    hub(server, queue)
    setup(server)
    await run_to_quiescence(Group(server, actors.controllers(settings)), [actors.kueue], horizon=horizon)
    return server


def found(server: Server) -> None:
    target(server, "c1", node())
    secret(server, "c1")


async def test_the_namespaces_and_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with an owner: its object, its lock's job, and its quota; a Secret elsewhere makes none."""
    monkeypatch.setenv("HEARTH_NAMESPACE", "clusters")
    monkeypatch.setenv("HEARTH_SECRETS_NAMESPACE", "secrets")
    monkeypatch.setenv("HEARTH_EXECUTION_NAMESPACE", "runs")
    monkeypatch.setenv("HEARTH_KUEUE_CLUSTER_QUEUE_NAME", "quotas")

    def setup(server: Server) -> None:
        target(server, "c1", node())
        secret(server, "c1", namespace="secrets", **{"fournos.dev/owner": "me"})
        secret(server, "c2")

    server = await play(ClusterSettings(), setup, queue="quotas")
    (found,) = server.list(FOURNOS_CLUSTER)
    assert key_of(found) == Key("clusters", "c1") and found["status"]["kubeconfigStatus"] == "Valid"
    assert [key_of(job) for job in server.list(FOURNOS_JOB)] == [Key("runs", "cluster-lock-c1")]
    assert quotas(server, "quotas")["c1"][SLOT] == 100


async def test_the_pattern_of_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_KUBECONFIG_SECRET_PATTERN", "of-{cluster}-config")

    def setup(server: Server) -> None:
        target(server, "c1", node())
        labels = {"fournos.dev/cluster-kubeconfig": "true"}
        meta = {"name": "of-c1-config", "namespace": SECRETS, "labels": labels}
        server.create(SECRET, {"metadata": meta, "data": {"kubeconfig": "dG9rZW4="}})
        secret(server, "c2")  # its name does not fit

    server = await play(ClusterSettings(), setup)
    assert cluster(server)["spec"]["kubeconfigSecret"] == "of-c1-config"
    assert set(quotas(server)) == {"mine", "c1"}


async def test_the_prefix_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_GPU_RESOURCE_PREFIX", "acme/card-")
    server = await play(ClusterSettings(), found)
    assert quotas(server)["c1"] == {SLOT: 100, "acme/card-l40s": 2}


async def last_discovery(server_setup: Any, settings: ClusterSettings) -> str:
    server = await play(settings, server_setup, horizon=3600.0)
    return str(cluster(server)["status"]["hardware"]["lastDiscovery"])


async def test_the_interval_of_discovery_and_a_cluster_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARTH_GPU_DISCOVERY_DEFAULT_INTERVAL_SEC", "1000")
    assert await last_discovery(found, ClusterSettings()) == "2030-01-01T00:50:00Z"
    monkeypatch.setenv("HEARTH_GPU_DISCOVERY_DEFAULT_INTERVAL_SEC", "36000")
    assert await last_discovery(found, ClusterSettings()) == "2030-01-01T00:00:00Z"
    server = await play(ClusterSettings(), found, horizon=10.0)
    edit(server, gpuDiscoveryInterval="25m")
    await run_to_quiescence(
        Group(server, actors.controllers(ClusterSettings())), [actors.kueue], horizon=3600.0
    )
    assert cluster(server)["status"]["hardware"]["lastDiscovery"] >= "2030-01-01T00:50:00Z"


def test_the_crd_fills_in_no_interval_so_the_setting_counts() -> None:
    schema = crd(DEFINITION)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "default" not in schema["properties"]["spec"]["properties"]["gpuDiscoveryInterval"]


# --- metrics -------------------------------------------------------------------------------------------
# The gauges about the clusters.


def store(*statuses: dict[str, Any]) -> Store:
    found = Store()
    objects = [
        {
            "metadata": {"namespace": "hearth", "name": f"c{n}", "uid": f"u{n}", "resourceVersion": "1"},
            "status": s,
        }
        for n, s in enumerate(statuses)
    ]
    found.replace(objects, "1")
    return found


def test_states_locks_and_gpus_and_empty_states() -> None:
    metrics = Metrics(TABLE)
    a100 = {"vendor": "nvidia", "shortName": "a100", "nodeCount": 1}
    gpus = [{**a100, "model": "A100-40GB", "count": 3}, {**a100, "model": "A100-80GB", "count": 5}]
    held = {"kubeconfigStatus": "Valid", "lock": {"state": "Held"}, "hardware": {"gpus": gpus}}
    report(Caches({FOURNOS_CLUSTER: store(held, {"kubeconfigStatus": "Unreachable"}, {})}), metrics)
    assert metrics.value("fournos_clusters", "Valid") == 1
    assert metrics.value("fournos_clusters", "Unreachable") == 1
    assert metrics.value("fournos_clusters", "Unknown") == 1
    assert metrics.value("fournos_cluster_locks", "Held") == 1
    assert metrics.value("fournos_cluster_gpus", "c0", "a100") == 8
    report(Caches({FOURNOS_CLUSTER: store()}), metrics)
    assert metrics.value("fournos_clusters", "Valid") == metrics.value("fournos_cluster_locks", "Held") == 0
    assert b"c0" not in metrics.render()
