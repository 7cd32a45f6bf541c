"""The metrics of MiniClusters."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import MINICLUSTER
from fournos.app.parts import TABLE
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.miniclusters.metrics import report


@pytest.mark.parametrize("odd", ["x", [1], {"phase": 7, "ready": "many"}, {"ready": {}}], ids=repr)
def test_a_status_of_another_form_hides_no_other(odd: Any) -> None:
    store, metrics = Store(), Metrics(TABLE)
    good = {"phase": "Ready", "ready": 3}
    store.replace(
        [
            {"metadata": {"name": name, "resourceVersion": "1"}, "status": status}
            for name, status in (("good", good), ("odd", odd))
        ],
        "1",
    )
    report(Caches({MINICLUSTER: store}), metrics)
    text = metrics.render().decode()
    assert 'fournos_miniclusters{phase="Ready"} 1' in text and "fournos_minicluster_brokers 3" in text
