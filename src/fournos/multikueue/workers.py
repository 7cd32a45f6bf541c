"""The workers as decisions see them: what the fleet's watches hold, and a post box for what is to be done.

A decision never waits for a worker.  What it wants done there is handed to the worker's own tasks and comes
back as a watch event; until then, and while a failed request waits for its next try, the object counts as
busy.  So a worker that hangs holds up nobody but the objects that are on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from fournos.kube.api import Api
from fournos.kube.resource import Key, Obj, Resource
from fournos.kube.store import Store
from fournos.runtime.steps import Custom
from fournos.runtime.system import Executor


@dataclass(frozen=True, slots=True)
class Make:
    """Create `body`, once; an object of its name that is not ours is left alone (`FOREIGN`)."""

    resource: Resource
    body: Obj


@dataclass(frozen=True, slots=True)
class Change:
    """JSON merge patch, bound to a resourceVersion in its metadata."""

    resource: Resource
    key: Key
    body: Obj


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete exactly the object with this UID."""

    resource: Resource
    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class Look:
    """Read the object live into its store; `since` says after which event, so that it is asked once."""

    resource: Resource
    key: Key
    since: str


Order: TypeAlias = Make | Change | Remove | Look


@dataclass(frozen=True, slots=True)
class Send(Custom):
    """Have this done on a worker, on behalf of a Workload of the manager."""

    worker: str
    workload: Key
    order: Order


FOREIGN = "ForeignObject"
FINAL = frozenset({FOREIGN, "InvalidError"})
"""Refusals that no waiting cures: this worker is none for this object."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The last order for an object that failed."""

    error: str
    """The exception's class, or `FOREIGN`."""
    message: str
    attempt: str = ""
    """The one it belongs to, for an object that was to be made."""

    @property
    def final(self) -> bool:
        return self.error in FINAL


class Workers(Protocol):
    """The connections to workers, as the systems need them."""

    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None: ...
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
        """An order for this Workload is under way there, or waits for its next try."""
        ...

    def trouble(self, name: str, workload: Key) -> Trouble | None: ...
    def looked(self, name: str, workload: Key) -> str:
        """`since` of the last `Look` that was answered; "" without one."""
        ...

    def removed(self, name: str, uid: str) -> bool:
        """Its deletion was accepted a moment ago, and the watch has not told yet what came of it."""
        ...

    async def send(self, step: Send, api: Api) -> None:
        """Take the order; must not wait for the worker.  `api` is the manager's."""
        ...


def executors(workers: Workers) -> Mapping[type[Custom], Executor]:
    return {Send: workers.send}
