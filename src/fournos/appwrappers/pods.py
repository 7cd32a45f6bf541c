"""The pods of an AppWrapper, counted where they belong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fournos.api.conditions import is_true
from fournos.appwrappers.names import COMPONENT_ANNOTATION
from fournos.appwrappers.tolerance import Tolerance
from fournos.kube.resource import Obj, is_terminating


@dataclass(frozen=True, slots=True)
class Count:
    pending: int = 0
    running: int = 0
    """Running and ready."""
    succeeded: int = 0
    failed: int = 0

    @property
    def there(self) -> int:
        return self.pending + self.running + self.succeeded

    def __str__(self) -> str:
        return f"{self.pending} pods pending; {self.running} pods running; {self.succeeded} pods succeeded"


def phase_of(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def count(pods: Iterable[Obj]) -> Count:
    """A pod that is going away is none, unless it has ended."""
    found = {"pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    for pod in pods:
        phase = phase_of(pod)
        if phase in ("Succeeded", "Failed"):
            found[phase.lower()] += 1
        elif not is_terminating(pod):
            ready = phase == "Running" and is_true(pod, "Ready")
            found["running" if ready else "pending"] += 1
    return Count(**found)


def alive(pods: Iterable[Obj]) -> list[Obj]:
    return [pod for pod in pods if phase_of(pod) not in ("Succeeded", "Failed")]


def component_of(pod: Obj) -> int | None:
    """None: it does not say (it was made by another operator's version)."""
    text = (pod["metadata"].get("annotations") or {}).get(COMPONENT_ANNOTATION, "")
    return int(text) if text.isdecimal() else None


def gave_up(pods: Iterable[Obj], tolerance: Tolerance) -> bool:
    """Whether a failed pod's exit code says that another try is of no use."""
    for pod in pods:
        if phase_of(pod) != "Failed":
            continue
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode") or 0
            retryable = tolerance.retryable_codes is None or code in tolerance.retryable_codes
            if code and (code in tolerance.terminal_codes or not retryable):
                return True
    return False
