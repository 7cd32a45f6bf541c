"""Counts the pods of an AppWrapper, per component where the component is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Obj, created_at, is_terminating
from fournos.systems.appwrappers.fault_tolerance import Tolerance
from fournos.systems.appwrappers.names import COMPONENT_ANNOTATION

_INDEX: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Count:
    """Numbers of pods by state."""

    pending: int = 0
    running: int = 0
    """Pods that are running and ready."""
    succeeded: int = 0
    failed: int = 0

    @property
    def there(self) -> int:
        return self.pending + self.running + self.succeeded

    def __str__(self) -> str:
        return f"{self.pending} pods pending; {self.running} pods running; {self.succeeded} pods succeeded"


def phase_of(pod: Obj) -> str:
    """Returns the pod's phase; Pending if its status has none yet."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def count(pods: Iterable[Obj]) -> Count:
    """Counts the pods by state. A pod that is being deleted is not counted unless it has ended."""
    counts = {"pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    for pod in pods:
        phase = phase_of(pod)
        if phase in ("Succeeded", "Failed"):
            counts[phase.lower()] += 1
        elif not is_terminating(pod):
            ready = phase == "Running" and is_true(pod, "Ready")
            counts["running" if ready else "pending"] += 1
    return Count(**counts)


def alive(pods: Iterable[Obj]) -> list[Obj]:
    """Returns the pods that have not ended."""
    return [pod for pod in pods if phase_of(pod) not in ("Succeeded", "Failed")]


def component_of(pod: Obj, components: int) -> int | None:
    """Returns the index of the pod's component, which is below `components`.

    None if the annotation has no such index: another version of the operator created the pod, or the
    annotation was changed since.
    """
    text = (pod["metadata"].get("annotations") or {}).get(COMPONENT_ANNOTATION, "")
    index = int(text) if _INDEX.fullmatch(text) else components
    return index if index < components else None


def gave_up(pods: Iterable[Obj], tolerance: Tolerance) -> bool:
    """True if a failed pod's exit code rules out a retry."""
    return any(_is_terminal(pod, tolerance) for pod in pods if phase_of(pod) == "Failed")


def _is_terminal(pod: Obj, tolerance: Tolerance) -> bool:
    for container in _containers(pod):
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode") or 0
        retryable = tolerance.retryable_codes is None or code in tolerance.retryable_codes
        if code and (code in tolerance.terminal_codes or not retryable):
            return True
    return False


def unreplaced(pods: Iterable[Obj], tolerance: Tolerance, *, whole: bool) -> list[Obj]:
    """Returns the failed pods of a component that its own controller has not replaced.

    A controller keeps failed pods for their logs, so a failed pod alone is not a failure. It counts until the
    component is `whole` again, or until a pod that was created after its end is ready or has succeeded. A pod
    whose exit code rules out a retry always counts.
    """
    all_pods = list(pods)
    well = [one for one in all_pods if phase_of(one) == "Succeeded" or is_true(one, "Ready")]
    newest = max((created_at(one) for one in well), default="")
    return [
        pod
        for pod in all_pods
        if phase_of(pod) == "Failed" and (_is_terminal(pod, tolerance) or not (whole or newest > _ended(pod)))
    ]


def _containers(pod: Obj) -> Sequence[Obj]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _ended(pod: Obj) -> str:
    """Returns the time of the pod's end. For a pod that never ran this is its creation time."""
    times = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in _containers(pod)]
    return max((str(time) for time in times if time), default=created_at(pod))
