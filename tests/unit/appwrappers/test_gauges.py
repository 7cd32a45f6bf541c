"""What /metrics says about AppWrappers."""

from __future__ import annotations

from fournos.appwrappers.gauges import report
from fournos.appwrappers.names import APPWRAPPER
from fournos.runtime.metrics import Metrics
from fournos.runtime.system import Caches
from tests.unit.clusters.test_gauges import store


def test_appwrappers_by_phase() -> None:
    metrics = Metrics()
    report(Caches({APPWRAPPER: store({"phase": "Running"}, {"phase": "Running"}, {})}), metrics)
    values = [metrics.value("fournos_appwrappers", phase) for phase in ("Running", "New", "Failed")]
    assert values == [2, 1, 0]
