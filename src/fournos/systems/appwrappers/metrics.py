"""The Prometheus metrics of AppWrappers: their number by phase, from the cache, and the phases entered."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fournos.api.kinds import APPWRAPPER
from fournos.api.phase import NEW, OF_APPWRAPPERS
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.runtime import metrics as table
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.appwrappers.status import phase_of

BY_PHASE: Final = table.Gauge("fournos_appwrappers", "AppWrappers by status.phase.", ("phase",))
PHASES_ENTERED: Final = table.Counter(
    "appwrapper_phase_total",
    "Phases that AppWrappers have entered, under the published operator's name.",
    ("namespace", "phase"),
)
METRICS: Final[tuple[table.Metric, ...]] = (BY_PHASE, PHASES_ENTERED)


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauge. Every phase is set, so that a phase without AppWrappers is exported as 0."""
    phases = Counter(phase_of(one) or NEW for one in caches[APPWRAPPER])
    for phase in (NEW, *OF_APPWRAPPERS):
        metrics.set(BY_PHASE, phases[phase], phase)


def count_phase(metrics: Metrics, before: Obj, now: Obj) -> None:
    """Counts the phase that a status write has entered. Each replica counts its own writes only."""
    if phase_of(now) != phase_of(before):
        metrics.add(PHASES_ENTERED, key_of(now).namespace, phase_of(now))
