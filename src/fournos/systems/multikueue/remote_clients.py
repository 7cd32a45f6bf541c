"""Client of all worker clusters: one connection and one work queue each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import TransientError
from fournos.engine.kube.fleet import Dial, Fleet, KubeconfigRefusedError
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.kube.store import Store
from fournos.engine.kube.transport import Observer
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.clock import Clock
from fournos.systems.multikueue.observe import fleet_watches, workload_of
from fournos.systems.multikueue.remote import RemoteClient, RemoteFailure, Send
from fournos.systems.multikueue.settings import MultiKueueSettings

_REQUESTS_PER_SECOND: Final = 200.0
"""Rate limit of the requests to one worker."""


class RemoteClients:
    """The connections to worker clusters, as the adapter's controllers use them.

    `wake` is called with the key of a Workload whose objects on a worker changed.  `changed` is called with
    the name of a worker that became usable or unusable.
    """

    def __init__(
        self,
        settings: MultiKueueSettings,
        *,
        wake: Callable[[Key], None],
        changed: Callable[[str], None],
        clock: Clock,
        observer: Observer | None = None,
        dial: Dial | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._wake = wake
        self._changed = changed
        self._settings = settings
        self._clock = clock
        self._jitter = jitter
        self._resources = (WORKLOAD, *settings.kinds)
        self._clients: dict[str, RemoteClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: dict[str, tuple[str, str]] = {}
        self._verdicts: dict[str, tuple[str, ...] | None] = {}
        self.fleet = Fleet(
            watches=fleet_watches(settings),
            on_change=self._on_change,
            on_object=self._on_object,
            now=clock.now,
            monotonic=clock.monotonic,
            probe_interval=settings.probe_interval,
            timeout=settings.probe_timeout,
            qps=_REQUESTS_PER_SECOND,
            observer=observer,
            dial=dial,
        )

    async def run(self) -> None:
        """Runs the connections until cancelled."""
        try:
            await self.fleet.run()
        finally:
            for client in self._clients.values():
                client.stop()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        # Tasks outlive the pass that sends the first step to a worker, so they must not inherit its context.
        task = asyncio.get_running_loop().create_task(work, name=name, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- connections ---------------------------------------------------------------------------------

    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None:
        """Connects to a worker.  Raises KubeconfigRefusedError."""
        try:
            self.fleet.connect(name, kubeconfig, version=version)
        except KubeconfigRefusedError as error:
            self.refuse(name, version, error.message)
            raise
        self._refused.pop(name, None)
        self._on_change(name)

    def disconnect(self, name: str) -> None:
        self.fleet.disconnect(name)
        self._refused.pop(name, None)
        self._verdicts.pop(name, None)
        client = self._clients.pop(name, None)
        if client is not None:
            client.stop()
        self._changed(name)

    def refuse(self, name: str, version: str, text: str) -> None:
        """Drops the connection and stores the reason: this version of the kubeconfig cannot be used."""
        self.fleet.disconnect(name)
        self._refused[name] = (version, text)
        self._on_change(name)

    def refused(self, name: str) -> str | None:
        """Returns the version of the kubeconfig that `refuse` or `connect` refused, or None."""
        found = self._refused.get(name)
        return found[0] if found else None

    def names(self) -> tuple[str, ...]:
        return self.fleet.names()

    def version_of(self, name: str) -> str | None:
        return self.fleet.version_of(name)

    # --- state ---------------------------------------------------------------------------------------

    def probed(self, name: str) -> bool:
        """Returns False until the worker is known to be usable or unusable."""
        if name in self._refused:
            return True
        probe = self.fleet.probe(name)
        if probe is None:
            return False
        return not probe.reachable or all(self._listed(name, resource) for resource in self._resources)

    def unusable_reason(self, name: str, kind: Resource | None = None) -> str:
        """Returns why the worker is not usable (for this kind if one is given), or "".

        Causes are its kubeconfig, its API server, a missing CRD, or a refused watch.
        """
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

    def _listed(self, name: str, resource: Resource) -> bool:
        """Returns True if the first list of this type has been answered, with objects or an error."""
        store = self.fleet.store(name, resource)
        if store is None:
            return False
        return store.synced or not store.served or self.fleet.watch_error(name, resource) is not None

    def store(self, name: str, resource: Resource) -> Store | None:
        return self.fleet.store(name, resource)

    def holds(self, name: str) -> bool:
        """Returns True if objects of this adapter are on the worker, or about to be, as far as is known."""
        stores = (self.fleet.store(name, resource) for resource in self._resources)
        client = self._clients.get(name)
        return any(store is not None and len(store) for store in stores) or (
            client is not None and client.has_steps()
        )

    def _on_change(self, name: str) -> None:
        """Calls `changed` if the worker's usability has changed; the fleet reports every change."""
        kinds = (None, *self._settings.kinds)
        verdict = tuple(self.unusable_reason(name, kind) for kind in kinds) if self.probed(name) else None
        if name in self._verdicts and self._verdicts[name] == verdict:
            return
        self._verdicts[name] = verdict
        if verdict and not verdict[0] and name in self._clients:
            self._clients[name].usable()
        self._changed(name)

    def _on_object(self, name: str, old: Obj | None, new: Obj | None) -> None:
        for obj in (old, new):
            if obj is not None:
                self._wake(workload_of(obj))

    # --- steps ---------------------------------------------------------------------------------------

    def busy(self, name: str, workload: Key) -> bool:
        """Returns True if a step for this Workload is running on the worker, or waits for its backoff."""
        client = self._clients.get(name)
        return client is not None and client.busy(workload)

    def failure(self, name: str, workload: Key) -> RemoteFailure | None:
        client = self._clients.get(name)
        return client.failure(workload) if client is not None else None

    def last_read(self, name: str, workload: Key) -> str:
        """Returns `since` of the last `Read` that was answered, or ""."""
        client = self._clients.get(name)
        return client.last_read(workload) if client is not None else ""

    def deleted(self, name: str, uid: str) -> bool:
        """Returns True if the deletion was accepted recently and its watch event may not have arrived yet."""
        client = self._clients.get(name)
        return client is not None and client.deleted(uid)

    async def send(self, step: Send, api: Api) -> None:
        """Queues the step without waiting for the worker.  `api` is the manager cluster's."""
        client = self._clients.get(step.worker)
        if client is None:
            client = self._clients[step.worker] = RemoteClient(
                step.worker,
                self.fleet,
                resources=self._resources,
                origin=self._settings.origin,
                clock=self._clock,
                wake=self._wake,
                spawn=self._spawn,
                jitter=self._jitter,
            )
        client.send(step.workload, step.step)
