"""The settings of /metrics, and what they come to."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fournos.app.metrics_server import metrics_tasks
from fournos.runtime.clock import SystemClock
from fournos.runtime.metrics import Metrics
from fournos.runtime.metrics_server.settings import MetricsSettings
from tests.world.server import Connection, Server


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [({}, set()), ({"port": 8443}, {"metrics", "metrics-certificate"}), ({"plain": True}, set())],
)
def test_the_https_server_runs_where_it_has_a_port(settings: dict[str, Any], tasks: set[str]) -> None:
    found = metrics_tasks(
        Connection(Server()),
        MetricsSettings(**settings),
        namespace="ns",
        clock=SystemClock(),
        metrics=Metrics(),
        refresh=lambda: None,
    )
    assert set(found) == tasks


def test_the_certificate_is_for_the_service() -> None:
    assert MetricsSettings(service="m").hosts("ns") == ("m.ns.svc", "m.ns.svc.cluster.local")
    assert len(MetricsSettings().hosts("ns")) == 1


@pytest.mark.parametrize("value", ["11m", "-1s", "soon"])
def test_an_answer_is_not_kept_for_long(value: str) -> None:
    with pytest.raises(ValidationError):
        MetricsSettings(review_lifetime=value)
    assert MetricsSettings(review_lifetime="0s").kept_for == 0
