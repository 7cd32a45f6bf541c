"""A manager and its workers in the in-memory world.

Each worker is an API server of its own: its objects are kept under resource types that carry its name, so
that what the manager sees of it can lag behind, get lost and fail like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fournos.kube.api import Api
from fournos.kube.errors import InvalidError, KubeError
from fournos.kube.resource import Key, Obj, Resource, key_of
from fournos.kube.store import Store
from fournos.multikueue import names
from fournos.multikueue.checks import checks_system
from fournos.multikueue.controller import dispatch_system
from fournos.multikueue.observe import Observer, fleet_watches, workload_of
from fournos.multikueue.post import make
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.workers import FOREIGN, Change, Look, Make, Remove, Send, Trouble
from fournos.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.runtime.system import Caches, System, Watch
from tests.world.server import Server

SETTINGS = MultiKueueSettings(external_frameworks="Foo.v1.example.com", worker_lost_timeout_sec=120)
FOO = SETTINGS.kinds[0]
NS = "jobs"
LINE = Resource("test", "v1", "Line", "lines", namespaced=False)
"""The way to a worker, and what it is able to: spec.down, full, finish, missing, bare, evict."""
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


@dataclass
class _There:
    """A worker's API, reached from the manager's process."""

    api: Api
    worker: str

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        return await self.api.create(at(self.worker, resource), obj)

    async def get(self, resource: Resource, key: Key) -> Obj:
        return await self.api.get(at(self.worker, resource), key)


@dataclass
class FakeWorkers:
    """What one life of the process knows of the workers."""

    caches: Caches | None = None
    troubles: dict[tuple[str, Key], Trouble] = field(default_factory=dict)
    looks: dict[tuple[str, Key], str] = field(default_factory=dict)
    stuck: set[tuple[str, Key]] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def life(self, caches: Caches) -> None:
        if caches is not self.caches:
            self.caches = caches
            self.troubles, self.looks, self.stuck, self.gone = {}, {}, set(), set()

    def names(self) -> tuple[str, ...]:
        return WORKERS

    def probed(self, name: str) -> bool:
        return True

    def hindrance(self, name: str, kind: Resource | None = None) -> str:
        assert self.caches is not None
        line = line_of(self.caches, name)
        if line.get("down"):
            return f"{name} cannot be reached"
        return f"it does not serve {kind}" if kind and line.get("missing") else ""

    def store(self, name: str, resource: Resource) -> Store | None:
        assert self.caches is not None
        found = at(name, resource)
        return self.caches[found]

    def busy(self, name: str, workload: Key) -> bool:
        assert self.caches is not None
        line = line_of(self.caches, name)
        return (name, workload) in self.stuck and bool(line.get("down") or line.get("bare"))

    def trouble(self, name: str, workload: Key) -> Trouble | None:
        return self.troubles.get((name, workload))

    def removed(self, name: str, uid: str) -> bool:
        return uid in self.gone

    def looked(self, name: str, workload: Key) -> str:
        return self.looks.get((name, workload), "")

    async def send(self, step: Send, api: Api) -> None:
        name, order = step.worker, step.order
        server: Server = api.server  # type: ignore[attr-defined]
        if line_of(server, name).get("down"):
            self.stuck.add((name, step.workload))
            return
        if line_of(server, name).get("bare"):  # of namespaces
            self.stuck.add((name, step.workload))
            self.troubles[name, step.workload] = Trouble("NotFoundError", f'namespaces "{NS}" not found')
            return
        assert self.caches is not None
        if (trouble := self.troubles.get((name, step.workload))) is not None and not trouble.final:
            del self.troubles[name, step.workload]
        try:
            match order:
                case Make():
                    answer = await make(_There(api, name), order)  # type: ignore[arg-type]
                    self.caches.assume(at(name, order.resource), answer)
                case Change():
                    answer = await api.patch(at(name, order.resource), order.key, order.body)
                    self.caches.assume(at(name, order.resource), answer)
                case Remove():
                    try:
                        await api.delete(at(name, order.resource), order.key, uid=order.uid)
                    except KubeError as error:
                        if error.status not in (404, 409):
                            raise
                    self.gone.add(order.uid)
                case Look():
                    found = server.find(at(name, order.resource), order.key)
                    if found is not None:
                        self.caches.assume(at(name, order.resource), found)
                    self.looks[name, step.workload] = order.since
        except InvalidError as error:
            attempt = order.body["metadata"]["annotations"][names.ATTEMPT] if isinstance(order, Make) else ""
            self.troubles[name, step.workload] = Trouble("InvalidError", error.message, attempt)
        except KubeError as error:
            if error.reason != FOREIGN:
                raise
            assert isinstance(order, Make)
            attempt = order.body["metadata"]["annotations"][names.ATTEMPT]
            self.troubles[name, step.workload] = Trouble(FOREIGN, error.message, attempt)

    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None: ...
    def forget(self, name: str) -> None: ...
    def version_of(self, name: str) -> str | None: ...  # type: ignore[empty-body]
    def refuse(self, name: str, version: str, text: str) -> None: ...
    def refused(self, name: str) -> str | None: ...  # type: ignore[empty-body]


def systems(settings: MultiKueueSettings = SETTINGS) -> list[System[Any]]:
    """That of the Workloads, which sees the workers' objects as the fleet would, and that of the checks."""
    mine, theirs = FakeWorkers(), FakeWorkers()
    observer = Observer(settings, mine)
    dispatch = dispatch_system(settings, mine, observer)
    checks = checks_system(settings, theirs, set())

    def seen(caches: Caches, key: Key) -> Any:
        mine.life(caches)
        return dispatch.observe(caches, key)

    def checked(caches: Caches, key: Key) -> Any:
        theirs.life(caches)
        return checks.observe(caches, key)

    def collect(caches: Caches) -> Any:
        mine.life(caches)
        assert dispatch.collect is not None
        return dispatch.collect(caches)

    def everybody(obj: Obj, caches: Caches) -> Any:
        mine.life(caches)
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
