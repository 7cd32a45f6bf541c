"""The gauges about the clusters."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.app.parts import TABLE
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.clusters.metrics import report


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
