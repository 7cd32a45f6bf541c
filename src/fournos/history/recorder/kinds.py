"""The recorded kinds: those that are recorded by default, and how an object of any kind shows its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, MINICLUSTER
from fournos.api.phase import TERMINAL
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Obj, Resource
from fournos.insight.values import moment, one_line, spec_of, status_of

BUILT_IN: Final[Mapping[str, Resource]] = {one.kind: one for one in (FOURNOS_JOB, APPWRAPPER, MINICLUSTER)}


@dataclass(frozen=True, slots=True)
class ObjectState:
    """The state of an object of any kind, as far as its status shows it."""

    phase: str
    message: str = ""
    ended_at: datetime | None = None
    """When it ended; None while it has not."""
    started_at: datetime | None = None


_ENDS: Final = {
    "Succeeded": {"True": "Succeeded", "False": "Failed"},
    "Complete": {"True": "Succeeded"},
    "Completed": {"True": "Succeeded"},
    "Finished": {"True": "Finished"},
    "JobFinished": {"True": "Finished"},
    "Failed": {"True": "Failed"},
}
"""Condition → status → phase: the ways in which kinds show their end (Tekton, batch, Kubeflow, Flux)."""
_ENDED_PHASES: Final = TERMINAL | {"Finished", "Completed"}
_FINISHED: Final = ("finishedAt", "completionTime", "endTime")


def state_of(obj: Obj) -> ObjectState:
    """Returns the state of an object that is not a FournosJob."""
    status = status_of(obj)
    started = moment(status.get("startedAt") or status.get("startTime") or _deployed(obj))
    phase, message = str(status.get("phase") or ""), one_line(status.get("message"))
    finished = next((at for name in _FINISHED if (at := moment(status.get(name)))), None)
    for type_, meanings in _ENDS.items():
        present = condition(obj, type_) or {}
        meaning = meanings.get(str(present.get("status")))
        if meaning:
            at = finished or moment(present.get("lastTransitionTime"))
            return ObjectState(phase or meaning, message or one_line(present.get("message")), at, started)
    if phase in _ENDED_PHASES:
        return ObjectState(phase, message, finished or _last_transition(obj), started)
    held = "Suspended" if spec_of(obj).get("suspend") else ("Running" if started else "New")
    return ObjectState(phase or held, message, None, started)


def _deployed(obj: Obj) -> object:
    """Returns when the resources of an AppWrapper existed: from then on it runs, and waits for nothing."""
    found = condition(obj, "ResourcesDeployed") or {}
    return found.get("lastTransitionTime") if found.get("status") == "True" else None


def _last_transition(obj: Obj) -> datetime | None:
    """Returns the last transition of any condition, for kinds that have no time of their end."""
    moments = [moment(one.get("lastTransitionTime")) for one in status_of(obj).get("conditions") or ()]
    return max(filter(None, moments), default=moment(obj["metadata"].get("creationTimestamp")))
