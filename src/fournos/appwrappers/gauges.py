"""What /metrics says about the AppWrappers: those of the cache by phase, and each phase that one enters."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fournos.appwrappers.names import APPWRAPPER
from fournos.kube.resource import Obj, key_of
from fournos.runtime.metrics import Metrics
from fournos.runtime.system import Caches

PHASES: Final = (
    "New",
    "Suspended",
    "Resuming",
    "Running",
    "Resetting",
    "Suspending",
    "Succeeded",
    "Failed",
    "Terminating",
)


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauge; all phases always, so that one nobody is in any more says 0."""
    phases = Counter(_phase(one) or "New" for one in caches[APPWRAPPER])
    for phase in PHASES:
        metrics.set("fournos_appwrappers", phases[phase], phase)


def count_phase(metrics: Metrics, before: Obj, now: Obj) -> None:
    """A status write; those of other replicas are counted there."""
    if _phase(now) != _phase(before):
        metrics.add("appwrapper_phase_total", key_of(now).namespace, _phase(now))


def _phase(wrapper: Obj) -> str:
    return str((wrapper.get("status") or {}).get("phase") or "")
