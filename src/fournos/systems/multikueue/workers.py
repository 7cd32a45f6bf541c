"""The interface between decisions and worker clusters.

A decision never waits for a worker.  A step for a worker is added to that worker's work queue, and its effect
arrives as a watch event.  Until then, and while a failed step waits for its backoff, the Workload is busy on
that worker.  A worker that does not answer therefore delays only the Workloads on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fournos.engine.kube.resource import Key, Obj, Resource, is_terminating, key_of
from fournos.engine.runtime.steps import Create, Custom, Delete, NameTaken, Patch
from fournos.systems.multikueue import names


@dataclass(frozen=True, slots=True)
class Read(Custom):
    """Reads an object live into its store.

    `since` identifies the event that requires the read, so that it happens once per event.
    """

    resource: Resource
    key: Key
    since: str


RemoteStep: TypeAlias = Create | Patch | Delete | Read


@dataclass(frozen=True, slots=True)
class Send(Custom):
    """Runs a step on a worker, for a Workload of the manager cluster."""

    worker: str
    workload: Key
    step: RemoteStep


def create(resource: Resource, body: Obj) -> Create:
    """Creates an object on a worker, or accepts the one that an earlier try has created."""
    return Create(resource, body, name_taken=_name_taken)


def _name_taken(step: Create, live: Obj) -> NameTaken | None:
    """Decides on an existing object of the same name, by labels and annotations.

    Its controller reference cannot be used, because it belongs to the worker cluster.
    """
    live_meta, own_meta = live["metadata"], step.body["metadata"]
    same = all(
        (live_meta.get(part) or {}).get(name) == (own_meta.get(part) or {}).get(name)
        for part, name in (
            ("labels", names.ORIGIN_LABEL),
            ("annotations", names.ATTEMPT),
            ("annotations", names.WORKER),
        )
    )
    if same and not is_terminating(live):
        return None
    if (live_meta.get("labels") or {}).get(names.ORIGIN_LABEL) == own_meta["labels"][names.ORIGIN_LABEL]:
        text = f"{step.resource} {key_of(live)} is of an earlier attempt, or of another worker's name"
        return NameTaken(text, waits=True)
    return NameTaken(f"{step.resource} {key_of(live)} exists already and was not made by this manager")


_PERMANENT = frozenset({"ForeignObject", "InvalidError"})
"""Errors that no retry resolves: this worker cannot accept this object."""


@dataclass(frozen=True, slots=True)
class RemoteFailure:
    """The failure of the last step for a Workload on a worker."""

    error: str
    """The error class, as in `StepFailure`."""
    message: str
    attempt: str = ""
    """The attempt of the object that was to be created, else ""."""

    @property
    def permanent(self) -> bool:
        return self.error in _PERMANENT
