"""What decisions know of worker clusters, and how they order steps there.

A decision never waits for a worker.  A step for a worker goes into that worker's work queue, and its effect
comes back as a watch event; until then, and while a failed step waits for its backoff, the Workload counts as
busy there.  So a worker that hangs delays only the Workloads that are on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from fournos.kube.api import Api
from fournos.kube.resource import Key, Obj, Resource, is_terminating, key_of
from fournos.kube.store import Store
from fournos.multikueue import names
from fournos.runtime.controller import Executor
from fournos.runtime.steps import Create, Custom, Delete, NameTaken, Patch


@dataclass(frozen=True, slots=True)
class Read(Custom):
    """Read the object live into its store; `since` names the event that asks for it, so that it happens
    once for each."""

    resource: Resource
    key: Key
    since: str


RemoteStep: TypeAlias = Create | Patch | Delete | Read


@dataclass(frozen=True, slots=True)
class Send(Custom):
    """Carry out a step on a worker, on behalf of a Workload of the manager."""

    worker: str
    workload: Key
    step: RemoteStep


def create(resource: Resource, body: Obj) -> Create:
    """Creates an object on a worker, or takes the one that an earlier try has created."""
    return Create(resource, body, name_taken=_name_taken)


def _name_taken(step: Create, live: Obj) -> NameTaken | None:
    """The controller of an object on a worker belongs to that cluster: labels and annotations decide."""
    found, wanted = live["metadata"], step.body["metadata"]
    same = all(
        (found.get(part) or {}).get(name) == (wanted.get(part) or {}).get(name)
        for part, name in (
            ("labels", names.ORIGIN_LABEL),
            ("annotations", names.ATTEMPT),
            ("annotations", names.WORKER),
        )
    )
    if same and not is_terminating(live):
        return None
    if (found.get("labels") or {}).get(names.ORIGIN_LABEL) == wanted["labels"][names.ORIGIN_LABEL]:
        text = f"{step.resource} {key_of(live)} is of an earlier attempt, or of another worker's name"
        return NameTaken(text, waits=True)
    return NameTaken(f"{step.resource} {key_of(live)} exists already and was not made by this manager")


_PERMANENT = frozenset({"ForeignObject", "InvalidError"})
"""Refusals that no waiting cures: this worker cannot take this object."""


@dataclass(frozen=True, slots=True)
class RemoteFailure:
    """The last step for a Workload that failed on a worker."""

    error: str
    """As in `StepFailure`."""
    message: str
    attempt: str = ""
    """Of the object that was to be created."""

    @property
    def permanent(self) -> bool:
        return self.error in _PERMANENT


class Workers(Protocol):
    """The connections to worker clusters, as the systems of the adapter use them."""

    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None:
        """Raises KubeconfigRefusedError."""
        ...

    def forget(self, name: str) -> None: ...
    def names(self) -> tuple[str, ...]: ...
    def version_of(self, name: str) -> str | None: ...
    def probed(self, name: str) -> bool:
        """False while nothing is known of it yet: neither that it can be used nor that it cannot."""
        ...

    def store(self, name: str, resource: Resource) -> Store | None: ...
    def hindrance(self, name: str, kind: Resource | None = None) -> str:
        """Why it cannot be used, for this kind if one is given: its kubeconfig, its API server, a CRD that is
        missing, a watch that is refused; "" when it can."""
        ...

    def refuse(self, name: str, version: str, text: str) -> None:
        """Its kubeconfig of this version cannot be used: drop the connection, remember why."""
        ...

    def refused(self, name: str) -> str | None:
        """The version that `refuse` or `connect` refused."""
        ...

    def busy(self, name: str, workload: Key) -> bool:
        """A step for this Workload is under way there, or waits for its backoff."""
        ...

    def failure(self, name: str, workload: Key) -> RemoteFailure | None: ...
    def last_read(self, name: str, workload: Key) -> str:
        """`since` of the last `Read` that was answered; "" without one."""
        ...

    def deleted(self, name: str, uid: str) -> bool:
        """Its deletion was accepted a moment ago, and its watch event may still come."""
        ...

    async def send(self, step: Send, api: Api) -> None:
        """Take the step; must not wait for the worker.  `api` is the manager's."""
        ...


def executors(workers: Workers) -> Mapping[type[Custom], Executor]:
    return {Send: workers.send}
