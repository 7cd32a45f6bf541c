"""A manager and its workers in the in-memory world.

Each worker is an API server of its own: its objects are kept under resource types that carry its name, so
that what the manager sees of it can lag behind, get lost and fail like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ConflictError, KubeError, ServerError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.engine.runtime.act import NameWait, StepExecutor
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.engine.runtime.decision import Create, Delete, StepFailure
from fournos.systems.multikueue import names
from fournos.systems.multikueue.admissioncheck import admission_checks
from fournos.systems.multikueue.observe import fleet_watches, workload_of
from fournos.systems.multikueue.part import workloads
from fournos.systems.multikueue.remote import Read, RemoteFailure, Send
from fournos.systems.multikueue.settings import MultiKueueSettings
from tests.multikueue_configuration import settings
from tests.world.server import Server

SETTINGS = settings("Foo.v1.example.com", workerLostTimeout="2m")
FOO = SETTINGS.kinds[0]
NS = "jobs"
LINE = Resource("test", "v1", "Line", "lines", namespaced=False)
"""The way to a worker, and what it is able to: spec.down, full, finish, evict."""
CHECK = "workers"
WORKERS = ("w1", "w2")


def at(worker: str, resource: Resource) -> Resource:
    """The resource type on that worker."""
    return replace(resource, group=f"{resource.group}@{worker}")


def line_of(source: Server | Caches, worker: str) -> dict[str, Any]:
    found = (
        source.find(LINE, Key("", worker))
        if isinstance(source, Server)
        else source[LINE].get(Key("", worker))
    )
    return dict((found or {}).get("spec") or {})


@dataclass(eq=False)
class _There:
    """A worker's API, reached from the manager's process."""

    api: Api
    worker: str

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        return await self.api.create(at(self.worker, resource), obj)

    async def get(self, resource: Resource, key: Key) -> Obj:
        return await self.api.get(at(self.worker, resource), key)

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        return await self.api.patch(at(self.worker, resource), key, body, subresource=subresource)

    async def delete(self, resource: Resource, key: Key, **options: Any) -> None:
        await self.api.delete(at(self.worker, resource), key, uid=options["uid"])


@dataclass
class _Stores:
    """The caches of one worker among those of the manager's process."""

    caches: Caches
    worker: str

    def assume(self, resource: Resource, obj: Obj) -> bool:
        return self.caches.assume(at(self.worker, resource), obj)


@dataclass
class FakeWorkers:
    """The workers as one process sees them."""

    caches: Caches | None = None
    failures: dict[tuple[str, Key], RemoteFailure] = field(default_factory=dict)
    reads: dict[tuple[str, Key], str] = field(default_factory=dict)
    stuck: set[tuple[str, Key]] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def life(self, caches: Caches) -> None:
        if caches is not self.caches:
            self.caches = caches
            self.failures, self.reads, self.stuck, self.gone = {}, {}, set(), set()

    def names(self) -> tuple[str, ...]:
        return WORKERS

    def probed(self, name: str) -> bool:
        return True

    def unusable_reason(self, name: str, kind: Resource | None = None) -> str:
        assert self.caches is not None
        return f"{name} cannot be reached" if line_of(self.caches, name).get("down") else ""

    def store(self, name: str, resource: Resource) -> Store | None:
        assert self.caches is not None
        found = at(name, resource)
        return self.caches[found]

    def holds(self, name: str) -> bool:
        return False

    def busy(self, name: str, workload: Key) -> bool:
        assert self.caches is not None
        line = line_of(self.caches, name)
        return (name, workload) in self.stuck and bool(line.get("down"))

    def failure(self, name: str, workload: Key) -> RemoteFailure | None:
        return self.failures.get((name, workload))

    def deleted(self, name: str, uid: str) -> bool:
        return uid in self.gone

    def last_read(self, name: str, workload: Key) -> str:
        return self.reads.get((name, workload), "")

    async def send(self, step: Send, api: Api) -> None:
        name, key, there = step.worker, (step.worker, step.workload), step.step
        server: Server = api.server  # type: ignore[attr-defined]
        if line_of(server, name).get("down"):
            self.stuck.add(key)
            return
        assert self.caches is not None
        if (before := self.failures.get(key)) is not None and not before.permanent:
            del self.failures[key]
        stores = _Stores(self.caches, name)

        async def read(requested: Read, _: Api) -> None:
            found = server.find(at(name, requested.resource), requested.key)
            if found is not None:
                stores.assume(requested.resource, found)
            self.reads[key] = requested.since

        executor = StepExecutor(_There(api, name))  # type: ignore[arg-type]
        acted = await executor.act((there,), stores, executors={Read: read})  # type: ignore[arg-type]
        if isinstance(there, Delete) and acted.stopped is None:
            self.gone.add(there.uid)
        if isinstance(acted.stopped, NameWait):
            raise ConflictError(acted.stopped.reason)
        if isinstance(acted.stopped, StepFailure):
            if acted.stopped.error not in ("InvalidError", "ForeignObject"):
                raise (ServerError if acted.stopped.transient else KubeError)(acted.stopped.message)
            attempt = (
                there.body["metadata"]["annotations"][names.ATTEMPT] if isinstance(there, Create) else ""
            )
            self.failures[key] = RemoteFailure(acted.stopped.error, acted.stopped.message, attempt)

    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None: ...
    def disconnect(self, name: str) -> None: ...
    def version_of(self, name: str) -> str | None: ...  # type: ignore[empty-body]
    def refuse(self, name: str, version: str, text: str) -> None: ...
    def refused(self, name: str) -> str | None: ...  # type: ignore[empty-body]


def controllers(settings: MultiKueueSettings = SETTINGS) -> list[Controller[Any]]:
    """That of the Workloads, which sees the workers' objects as the fleet would, and that of the checks."""
    own, foreign = FakeWorkers(), FakeWorkers()
    dispatch = workloads(settings, own)
    checks = admission_checks(settings, foreign)

    def seen(caches: Caches, key: Key) -> Any:
        own.life(caches)
        return dispatch.observe(caches, key)

    def checked(caches: Caches, key: Key) -> Any:
        foreign.life(caches)
        return checks.observe(caches, key)

    def collect(caches: Caches) -> Any:
        own.life(caches)
        assert dispatch.collect is not None
        return dispatch.collect(caches)

    def everybody(obj: Obj, caches: Caches) -> Any:
        own.life(caches)
        assert dispatch.collect is not None
        return (*(key_of(one) for one in caches[WORKLOAD]), *dispatch.collect(caches))

    remote = tuple(
        Watch(
            at(worker, watch.resource),
            wakes=lambda obj, caches: (workload_of(obj),),
            selector=watch.selector,
            project=watch.project,
            indexes=watch.indexes,
        )
        for worker in WORKERS
        for watch in fleet_watches(settings)
    )
    return [
        replace(
            dispatch,
            watches=(*dispatch.watches, *remote, Watch(LINE, wakes=everybody)),
            observe=seen,
            collect=collect,
        ),
        replace(
            checks,
            watches=(
                *checks.watches,
                Watch(LINE, wakes=lambda obj, caches: tuple(key_of(one) for one in caches[ADMISSION_CHECK])),
            ),
            observe=checked,
        ),
    ]
