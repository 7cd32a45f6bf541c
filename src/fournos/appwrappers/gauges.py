"""What /metrics says about the AppWrappers, from the cache."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fournos.appwrappers.names import APPWRAPPER
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
    phases = Counter(str((one.get("status") or {}).get("phase") or "New") for one in caches[APPWRAPPER])
    for phase in PHASES:
        metrics.set("fournos_appwrappers", phases[phase], phase)
