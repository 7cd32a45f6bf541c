"""The metrics of AppWrappers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fournos.api.kinds import APPWRAPPER
from fournos.app.parts import TABLE
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.appwrappers.metrics import count_phase, report
from fournos.systems.appwrappers.part import appwrappers_controller
from tests.unit.systems.appwrappers.actors import NS, OWN, Controllers, pod_template, submit
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.unit.systems.clusters.test_metrics import store
from tests.world.harness import run


def test_appwrappers_by_phase() -> None:
    metrics = Metrics(TABLE)
    report(Caches({APPWRAPPER: store({"phase": "Running"}, {"phase": "Running"}, {})}), metrics)
    values = [metrics.value("fournos_appwrappers", phase) for phase in ("Running", "New", "Failed")]
    assert values == [2, 1, 0]


async def test_each_phase_that_one_enters() -> None:
    """Under the published name, with its labels: one that fails once is Running twice."""
    metrics = Metrics(TABLE)
    story = scenario(
        lambda server: submit(server, pod_template("sample")), world=lambda: Controllers(fails={"sample"})
    )
    counting = appwrappers_controller(OWN, written=partial(count_phase, metrics))
    await run(replace(story, controller=counting))
    assert b'appwrapper_phase_total{namespace="team",phase="Running"} 2.0' in metrics.render()
    entered = ("Suspended", "Resuming", "Resetting", "Succeeded", "Failed")
    counts = [metrics.value("appwrapper_phase_total", NS, phase) for phase in entered]
    assert counts == [1, 2, 1, 1, 0]
