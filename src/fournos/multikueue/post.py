"""The workers for real: a fleet of connections, and for each worker tasks that do what decisions want done.

Nothing here is remembered beyond the process: an order that was lost with it is decided upon again, from
what is on the manager and on the workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from fournos.kube.api import Api
from fournos.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectionLostError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
    TransientError,
)
from fournos.kube.fleet import Dial, Fleet, KubeconfigRefusedError
from fournos.kube.resource import Key, Obj, Resource, is_terminating, key_of
from fournos.kube.shape import checked
from fournos.kube.store import Store
from fournos.kube.transport import Observer
from fournos.multikueue import names
from fournos.multikueue.observe import fleet_watches, workload_of
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.workers import FOREIGN, Change, Look, Make, Order, Remove, Send, Trouble
from fournos.queueing.kinds import WORKLOAD

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

log = logging.getLogger(__name__)

_AT_ONCE: Final = 16
"""Requests to one worker at the same time."""
_BACKOFF: Final = (0.2, 60.0)
"""Seconds: the first wait after a failure, and the longest; each is twice the one before."""
_LATELY: Final = 60.0
"""Seconds after which a deletion is sent again: its watch event should have come long since."""
_REMEMBERED: Final = 10_000
"""Entries that each table keeps of Workloads that may be long gone; the oldest go first."""


@dataclass(slots=True)
class _Box:
    """The orders for one worker, by the Workload that they are for."""

    orders: dict[Key, deque[Order]] = field(default_factory=dict)
    failures: dict[Key, int] = field(default_factory=dict)
    waits: dict[Key, asyncio.TimerHandle] = field(default_factory=dict)
    looked: dict[Key, str] = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    """UID → when its deletion was accepted."""
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))


class Post:
    """`Workers` over a fleet.

    `wake` gets the key of a Workload that something happened to, `changed` the name of a worker that has
    become usable or ceased to be.
    """

    def __init__(
        self,
        settings: MultiKueueSettings,
        *,
        wake: Callable[[Key], None],
        changed: Callable[[str], None],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        observer: Observer | None = None,
        dial: Dial | None = None,
    ) -> None:
        self._wake = wake
        self._changed = changed
        self._settings = settings
        self._monotonic = monotonic
        self._boxes: dict[str, _Box] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: dict[str, tuple[str, str]] = {}
        self._told: dict[str, tuple[str, ...] | None] = {}
        self._troubles: dict[tuple[str, Key], Trouble] = {}
        self.fleet = Fleet(
            watches=fleet_watches(settings),
            on_change=self._on_change,
            on_object=self._on_object,
            now=now,
            monotonic=monotonic,
            probe_interval=settings.probe_interval_sec,
            timeout=settings.probe_timeout_sec,
            qps=settings.requests_per_second,
            observer=observer,
            dial=dial,
        )

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self.fleet.run()
        finally:
            for box in self._boxes.values():
                for handle in box.waits.values():
                    handle.cancel()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- which workers -------------------------------------------------------------------------------

    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None:
        """Raises KubeconfigRefusedError."""
        try:
            self.fleet.connect(name, kubeconfig, version=version)
        except KubeconfigRefusedError as error:
            self.refuse(name, version, error.message)
            raise
        self._refused.pop(name, None)
        self._on_change(name)

    def forget(self, name: str) -> None:
        self.fleet.forget(name)
        self._refused.pop(name, None)
        self._told.pop(name, None)
        self._boxes.pop(name, None)
        self._changed(name)

    def refuse(self, name: str, version: str, text: str) -> None:
        self.fleet.forget(name)
        self._refused[name] = (version, text)
        self._on_change(name)

    def refused(self, name: str) -> str | None:
        found = self._refused.get(name)
        return found[0] if found else None

    def names(self) -> tuple[str, ...]:
        return self.fleet.names()

    def version_of(self, name: str) -> str | None:
        return self.fleet.version_of(name)

    # --- what is known of them -----------------------------------------------------------------------

    def probed(self, name: str) -> bool:
        if name in self._refused:
            return True
        probe = self.fleet.probe(name)
        if probe is None:
            return False
        return not probe.reachable or all(
            self._heard(name, resource) for resource in (WORKLOAD, *self._settings.kinds)
        )

    def hindrance(self, name: str, kind: Resource | None = None) -> str:
        if name in self._refused:
            return self._refused[name][1]
        probe = self.fleet.probe(name)
        if probe is not None and not probe.reachable:
            return probe.error or "it cannot be reached"
        for resource in (WORKLOAD, *((kind,) if kind else ())):
            store = self.fleet.store(name, resource)
            if store is not None and not store.served:
                return f"it does not serve {resource} in {resource.version}: install its CRD"
            error = self.fleet.watch_error(name, resource)
            if error is not None and not (isinstance(error, TransientError) and store and store.synced):
                return f"{resource} cannot be watched: {error.message}"
        return ""

    def _heard(self, name: str, resource: Resource) -> bool:
        store = self.fleet.store(name, resource)
        if store is None:
            return False
        return store.synced or not store.served or self.fleet.watch_error(name, resource) is not None

    def store(self, name: str, resource: Resource) -> Store | None:
        return self.fleet.store(name, resource)

    def _on_change(self, name: str) -> None:
        """The fleet tells of every change; those who wait for a worker hear only of its verdict."""
        kinds = (None, *self._settings.kinds)
        verdict = tuple(self.hindrance(name, kind) for kind in kinds) if self.probed(name) else None
        if name in self._told and self._told[name] == verdict:
            return
        self._told[name] = verdict
        if verdict and not verdict[0] and (box := self._boxes.get(name)) is not None:
            for key in tuple(box.waits):
                self._over(name, box, key)  # what they waited for is over
        self._changed(name)

    def _on_object(self, name: str, old: Obj | None, new: Obj | None) -> None:
        for obj in (old, new):
            if obj is not None:
                self._wake(workload_of(obj))

    # --- orders --------------------------------------------------------------------------------------

    def busy(self, name: str, workload: Key) -> bool:
        box = self._boxes.get(name)
        return box is not None and (workload in box.orders or workload in box.waits)

    def trouble(self, name: str, workload: Key) -> Trouble | None:
        return self._troubles.get((name, workload))

    def looked(self, name: str, workload: Key) -> str:
        box = self._boxes.get(name)
        return box.looked.get(workload, "") if box is not None else ""

    def removed(self, name: str, uid: str) -> bool:
        box = self._boxes.get(name)
        found = box.removed.get(uid) if box is not None else None
        return found is not None and self._monotonic() - found < _LATELY

    async def send(self, step: Send, api: Api) -> None:
        box = self._boxes.setdefault(step.worker, _Box())
        orders = box.orders.get(step.workload)
        if orders is not None:
            orders.append(step.order)
            return
        box.orders[step.workload] = deque([step.order])
        task = asyncio.create_task(
            self._work(step.worker, box, step.workload), name=f"orders for {step.worker}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, name: str, box: _Box, key: Key) -> None:
        """The orders for one Workload, one after the other, up to the first that fails."""
        orders = box.orders[key]
        failure: KubeError | None = None
        order = orders[0]
        try:
            async with box.turn:
                while orders and failure is None:
                    order = orders[0]
                    try:
                        await self._carry_out(name, box, key, order)
                        orders.popleft()
                    except KubeError as error:
                        failure = error
                    except Exception as error:  # what the worker answered fits nothing: its own harm
                        log.exception("worker %s: unexpected failure", name, extra={"key": key})
                        failure = ConnectionLostError(f"unexpected {type(error).__name__}")
        finally:
            del box.orders[key]
        if failure is None:
            box.failures.pop(key, None)
            if (trouble := self._troubles.get((name, key))) is not None and not trouble.final:
                del self._troubles[name, key]
        else:
            self._failed(name, box, key, order, failure)
        self._wake(key)

    def _failed(self, name: str, box: _Box, key: Key, order: Order, failure: KubeError) -> None:
        attempt = ""
        if isinstance(order, Make):
            attempt = str((order.body["metadata"].get("annotations") or {}).get(names.ATTEMPT) or "")
        error = FOREIGN if failure.reason == FOREIGN else type(failure).__name__
        trouble = Trouble(error, failure.message, attempt)
        self._troubles.pop((name, key), None)
        _remember(self._troubles, (name, key), trouble)
        if trouble.final and isinstance(order, Make):
            return  # any other order is given again at once by whoever is woken: it has to wait
        count = box.failures.pop(key, 0) + 1
        _remember(box.failures, key, count)
        if count == 3:
            log.warning(
                "worker %s: %s fails: %s", name, type(order).__name__, failure.message, extra={"key": key}
            )
        first, longest = _BACKOFF
        delay = min(longest, first * 2.0 ** min(count - 1, 16))
        box.waits[key] = asyncio.get_running_loop().call_later(delay, self._over, name, box, key)

    def _over(self, name: str, box: _Box, key: Key) -> None:
        handle = box.waits.pop(key, None)
        if handle is not None:
            handle.cancel()
        self._wake(key)

    async def _carry_out(self, name: str, box: _Box, key: Key, order: Order) -> None:
        api = self.fleet.api(name)
        if api is None:
            raise ConnectionLostError(f"{name} is not connected")
        match order:
            case Make():
                self._assume(name, order.resource, await make(api, order), key_of(order.body))
            case Change():
                answer = await api.patch(order.resource, order.key, order.body)
                self._assume(name, order.resource, answer, order.key)
            case Remove():
                with suppress(NotFoundError, NoSuchResourceError):
                    await api.delete(order.resource, order.key, uid=order.uid)
                while box.removed and self._monotonic() - next(iter(box.removed.values())) > _LATELY:
                    del box.removed[next(iter(box.removed))]
                _remember(box.removed, order.uid, self._monotonic())
            case Look():
                with suppress(NotFoundError):
                    answer = await api.get(order.resource, order.key)
                    self._assume(name, order.resource, answer, order.key)
                box.looked.pop(key, None)
                _remember(box.looked, key, order.since)

    def _assume(self, name: str, resource: Resource, answer: Obj, key: Key) -> None:
        """Raises ConnectionLostError for an answer that is not the object asked for."""
        store = self.fleet.store(name, resource)
        origin = (checked(answer, key)["metadata"].get("labels") or {}).get(names.ORIGIN_LABEL)
        if store is not None and origin == self._settings.the_origin and not is_terminating(answer):
            store.assume(answer)


def _remember(table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    table[key] = value
    while len(table) > _REMEMBERED:
        del table[next(iter(table))]


async def make(api: Api, order: Make) -> Obj:
    """The object, made now or before; KubeError with reason `FOREIGN` if it is somebody else's."""
    wanted, key = order.body["metadata"], key_of(order.body)
    try:
        made = checked(await api.create(order.resource, order.body), key)
        if (made["metadata"].get("labels") or {}).get(names.ORIGIN_LABEL) != wanted["labels"][
            names.ORIGIN_LABEL
        ]:
            raise ConnectionLostError(f"the answer for {order.resource} {key} lacks {names.ORIGIN_LABEL}")
        return made
    except AlreadyExistsError:
        live = checked(await api.get(order.resource, key), key)
    found = live["metadata"]
    same = all(
        (found.get(part) or {}).get(name) == (wanted.get(part) or {}).get(name)
        for part, name in (
            ("labels", names.ORIGIN_LABEL),
            ("annotations", names.ATTEMPT),
            ("annotations", names.WORKER),
        )
    )
    if same and not is_terminating(live):
        return live
    if (found.get("labels") or {}).get(names.ORIGIN_LABEL) == wanted["labels"][names.ORIGIN_LABEL]:
        raise ConflictError(
            f"{order.resource} {key_of(live)} is of an earlier attempt, or of another worker's name"
        )
    text = f"{order.resource} {key_of(live)} exists already and was not made by this manager"
    raise KubeError(text, reason=FOREIGN)
