"""When a Workload has nothing to do on workers any more."""

from __future__ import annotations

from dataclasses import dataclass

from fournos.api.conditions import is_true
from fournos.kube.resource import is_terminating
from fournos.multikueue.context import Observed, since


@dataclass(frozen=True, slots=True)
class Why:
    """Why something on workers has to go."""

    text: str
    hard: bool = False
    """At once: nobody waits for it to stop."""
    kept: bool = False
    """Only when it has been kept for its logs."""
    final: bool = False
    """It cannot be taken back: a cache that shows it may be behind in other things, not in this."""
    at: str = ""
    """Since when; the grace period counts from here."""


def over(observed: Observed) -> Why | None:
    """Why no worker may have anything of this Workload."""
    workload = observed.workload
    if workload is None or is_terminating(workload):
        return Why("it is deleted", hard=True, final=workload is not None)
    if is_true(workload, "Finished"):
        return Why("it is finished", hard=True, kept=True, final=True, at=since(workload, "Finished"))
    if observed.check is None:
        return Why("its queue does not ask for a worker any more", at=since(workload, "QuotaReserved"))
    if workload["spec"].get("active", True) is False:
        return Why("it is not active", at=since(workload, "Evicted", "QuotaReserved"))
    if is_true(workload, "Evicted"):
        return Why("it is evicted", at=since(workload, "Evicted"))
    if not is_true(workload, "QuotaReserved"):
        return Why("it has no quota", at=since(workload, "QuotaReserved"))
    return None
