"""The rights of its author that a schedule uses.  Pure.

The operator's account creates, stops and deletes the jobs, so that the API server and the admission policies
review that account.  Here is what they would ask of the author.  Whatever looks at a job alone, and not at
who creates it, holds for these jobs, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.api.fournosschedule import ConcurrencyPolicy
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.priority import LOCK_HELD_CLASS, PRIORITY_LABEL
from fournos.engine.runtime.decision import User, UserAccess


@dataclass(frozen=True, slots=True)
class AuthorRight:
    """A right that a field of a schedule takes."""

    verb: str
    resource: Resource
    name: str = ""
    """The only object; "": any of the namespace."""
    field: str = ""
    """The field that takes it; "": every schedule does."""

    def question(self, user: User, namespace: str) -> UserAccess:
        where = namespace if self.resource.namespaced else ""
        return UserAccess(user, self.verb, self.resource, where, self.name)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource.kind}{f' {self.name}' if self.name else 's'}"


CREATE: Final = AuthorRight("create", FOURNOS_JOB)
LOCK_PRIORITY: Final = AuthorRight(
    "use", WORKLOAD_PRIORITY_CLASS, LOCK_HELD_CLASS, f"the label {PRIORITY_LABEL} of its jobs"
)
STOP: Final = AuthorRight("patch", FOURNOS_JOB, field="spec.concurrencyPolicy: Replace")
DELETE: Final = AuthorRight("delete", FOURNOS_JOB, field="spec.historyLimits")


def rights_to_create(schedule: Obj) -> tuple[AuthorRight, ...]:
    """Returns what creating the jobs takes, at a time and by hand."""
    labels = _map(_map(_map(_map(schedule, "spec"), "jobTemplate"), "metadata"), "labels")
    return (CREATE, LOCK_PRIORITY) if labels.get(PRIORITY_LABEL) == LOCK_HELD_CLASS else (CREATE,)


def rights_to_end(schedule: Obj) -> tuple[AuthorRight, ...]:
    """Returns what stopping and deleting the jobs of earlier fires takes."""
    spec = _map(schedule, "spec")
    stops = spec.get("concurrencyPolicy") == ConcurrencyPolicy.REPLACE
    return (*((STOP,) if stops else ()), *((DELETE,) if spec.get("historyLimits") else ()))


def _map(obj: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Returns a field of an object that no schema has checked yet."""
    value = obj.get(field)
    return value if isinstance(value, Mapping) else {}
