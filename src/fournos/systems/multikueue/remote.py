"""Client of one worker cluster: a work queue with Workloads of the manager cluster as keys, and their steps.

A decision never waits for a worker.  A step for a worker is added to that worker's work queue, and its effect
arrives as a watch event.  Until then, and while a failed step waits for its backoff, the Workload is busy on
that worker.  A worker that does not answer therefore delays only the Workloads on it.

Nothing is persisted.  Steps that are lost with the process are decided again, from the state of the manager
cluster and the workers.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ConnectionLostError, KubeError, NotFoundError
from fournos.engine.kube.fleet import Fleet
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import Key, Obj, Resource, is_terminating, key_of
from fournos.engine.runtime.act import Acted, NameWait, StepExecutor
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches, Executor
from fournos.engine.runtime.decision import Create, Custom, Delete, NameTaken, Patch, Step, StepFailure
from fournos.engine.runtime.events import REPORTED_AFTER
from fournos.engine.runtime.queue import Queue, QueueClosedError
from fournos.systems.multikueue import names

log = logging.getLogger(__name__)


# --- steps on a worker -----------------------------------------------------------------------------------


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


# --- the client ------------------------------------------------------------------------------------------

_TASKS: Final = 16
"""The maximum number of Workloads whose steps run concurrently on one worker."""
_BACKOFF: Final = (0.2, 60.0)
"""Backoff in seconds: the first wait after a failure, and the maximum.

Each wait is twice the previous one.
"""
_REMEMBERED: Final = 10_000
"""The maximum number of entries per table.  Older entries, whose Workloads may be gone, are removed first."""

_Value = TypeVar("_Value")

Spawn = Callable[[Coroutine[Any, Any, None], str], None]
"""Starts a coroutine as a task with this name."""


class RemoteClient:
    """The work queue and state of one worker.

    `wake` is called with the key of a Workload when its steps, or its backoff, have ended.
    """

    def __init__(
        self,
        name: str,
        fleet: Fleet,
        *,
        resources: tuple[Resource, ...],
        origin: str,
        clock: Clock,
        wake: Callable[[Key], None],
        spawn: Spawn,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        self._fleet = fleet
        self._resources = resources
        self._origin = origin
        self._wake = wake
        self._spawn = spawn
        self._started = False
        base, limit = _BACKOFF
        self._queue = Queue(clock, base=base, limit=limit, jitter=jitter)
        self._steps: dict[Key, deque[RemoteStep]] = {}
        self._failures: dict[Key, RemoteFailure] = {}
        self._reads: dict[Key, str] = {}
        self._connected: tuple[ClusterApi, StepExecutor] | None = None

    # --- state ----------------------------------------------------------------------------------------

    def busy(self, workload: Key) -> bool:
        return workload in self._queue

    def has_steps(self) -> bool:
        return bool(self._steps)

    def failure(self, workload: Key) -> RemoteFailure | None:
        return self._failures.get(workload)

    def last_read(self, workload: Key) -> str:
        return self._reads.get(workload, "")

    def deleted(self, uid: str) -> bool:
        executor = self._step_executor()
        return executor is not None and executor.deleted_recently(uid)

    # --- steps ----------------------------------------------------------------------------------------

    def send(self, workload: Key, step: RemoteStep) -> None:
        """Appends a step to those that the Workload has queued here; the first failure discards the rest."""
        if not self._started:
            self._started = True
            for _ in range(_TASKS):
                self._spawn(self._work(), f"worker {self._name}")
        if workload in self._steps:
            self._steps[workload].append(step)
            return
        self._steps[workload] = deque([step])
        self._queue.add(workload)

    def usable(self) -> None:
        """Ends all backoffs, because the worker is usable again."""
        self._queue.hurry()

    def stop(self) -> None:
        """Stops the queue: no further steps are started."""
        self._queue.shutdown()

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            try:
                if key in self._steps:
                    await self._carry_out(key)
                elif key not in self._failures:
                    self._queue.forget(key)
            finally:
                self._steps.pop(key, None)
                self._queue.done(key)
                # The Workload is not busy any more: its next reconcile pass decides the next
                # step, or the same one again.
                self._wake(key)

    async def _carry_out(self, key: Key) -> None:
        steps = self._steps[key]
        retry_after = 0.0
        try:
            acted = await self._act(key, _each(steps))
            retry_after = acted.retry_after
            failed = _failed(acted)
        except KubeError as error:
            failed = type(error).__name__, error.message
        except Exception as error:  # an answer of an unexpected form must affect this worker only
            log.exception("worker %s: unexpected failure", self._name, extra={"key": key})
            failed = ConnectionLostError.__name__, f"unexpected {type(error).__name__}"
        if failed is None:
            self._succeeded(key)
        else:
            self._retry(key, steps[0], RemoteFailure(*failed, attempt=_attempt(steps[0])), retry_after)

    async def _act(self, key: Key, steps: Iterator[Step]) -> Acted:
        executor = self._step_executor()
        if executor is None:
            raise ConnectionLostError(f"{self._name} is not connected")
        caches = self._caches()
        executors: dict[type[Custom], Executor] = {Read: partial(self._read, key, caches)}
        return await executor.act(steps, caches, failures=self._queue.failures(key), executors=executors)

    async def _read(self, workload: Key, caches: Caches, step: Read, api: Api) -> None:
        with suppress(NotFoundError):
            caches.assume(step.resource, await api.get(step.resource, step.key))
        _remember(self._reads, workload, step.since)

    def _succeeded(self, key: Key) -> None:
        self._queue.forget(key)
        failure = self._failures.get(key)
        if failure is not None and not failure.permanent:
            del self._failures[key]

    def _retry(self, key: Key, step: RemoteStep, failure: RemoteFailure, retry_after: float) -> None:
        for forgotten in _remember(self._failures, key, failure):
            if forgotten not in self._queue:
                self._queue.forget(forgotten)
        if failure.permanent and isinstance(step, Create):
            return  # another step is decided again with the next pass, so it needs the backoff
        self._queue.retry(key, at_least=retry_after)
        if self._queue.failures(key) == REPORTED_AFTER:
            what = type(step).__name__
            log.warning("worker %s: %s fails: %s", self._name, what, failure.message, extra={"key": key})

    def _step_executor(self) -> StepExecutor | None:
        """Returns the executor of the current connection; it remembers the deletions accepted there."""
        api = self._fleet.api(self._name)
        if api is None:
            return None
        if self._connected is None or self._connected[0] is not api:
            self._connected = api, StepExecutor(cast(Api, RemoteApi(api)))
        return self._connected[1]

    def _caches(self) -> Caches:
        """Returns the current caches; a kubeconfig for another server creates new stores."""
        found = {resource: self._fleet.store(self._name, resource) for resource in self._resources}
        stores = {resource: store for resource, store in found.items() if store is not None}
        return Caches(stores, covers=dict.fromkeys(stores, self._is_ours))

    def _is_ours(self, obj: Obj) -> bool:
        return (obj["metadata"].get("labels") or {}).get(names.ORIGIN_LABEL) == self._origin


def _each(steps: deque[RemoteStep]) -> Iterator[RemoteStep]:
    """Yields steps, including those appended meanwhile; a failed step stays at the head."""
    while steps:
        yield steps[0]
        steps.popleft()


def _failed(acted: Acted) -> tuple[str, str] | None:
    """Returns error and message of the step that failed, or None."""
    match acted.stopped:
        case StepFailure(error=error, message=message):
            return error, message
        case NameWait(reason=reason):
            return NameWait.__name__, reason
    return None


def _attempt(step: RemoteStep) -> str:
    if not isinstance(step, Create):
        return ""
    return str((step.body["metadata"].get("annotations") or {}).get(names.ATTEMPT) or "")


def _remember(table: dict[Key, _Value], key: Key, value: _Value) -> list[Key]:
    """Stores an entry and returns the keys that were removed to make room for it."""
    table.pop(key, None)
    table[key] = value
    gone = []
    while len(table) > _REMEMBERED:
        gone.append(next(iter(table)))
        del table[gone[-1]]
    return gone


class RemoteApi:
    """The part of `Api` that steps use, with validated answers: another cluster may return anything.

    An answer that is not the requested object raises ConnectionLostError, so that the step is retried.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def get(self, resource: Resource, key: Key) -> Obj:
        return _asked_for(await self._api.get(resource, key), key)

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        made = _asked_for(await self._api.create(resource, obj, dry_run=dry_run), key_of(obj))
        if _origin(made) != _origin(obj):
            raise ConnectionLostError(f"the answer for {resource} {key_of(obj)} lacks {names.ORIGIN_LABEL}")
        return made

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        return _asked_for(await self._api.patch(resource, key, body, subresource=subresource), key)

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        await self._api.delete(resource, key, uid=uid, propagation=propagation, grace_seconds=grace_seconds)


def _origin(obj: Obj) -> object:
    return (obj["metadata"].get("labels") or {}).get(names.ORIGIN_LABEL)


def _asked_for(obj: Obj, key: Key) -> Obj:
    """Returns the answer to a request for this object; raises ConnectionLostError if it is another."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict) or key_of(obj) != key:
        raise ConnectionLostError(f"the answer for {key} is another object")
    return obj
