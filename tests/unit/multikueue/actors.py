"""A manager and its workers in the in-memory world.

Each worker is an API server of its own: its objects are kept under resource types that carry its name, so
that what the manager sees of it can lag behind, get lost and fail like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fournos.api.conditions import Condition, condition, is_true
from fournos.kube.api import Api
from fournos.kube.errors import InvalidError, KubeError
from fournos.kube.resource import Key, Obj, Resource, controller_of, is_terminating, key_of
from fournos.kube.store import Store
from fournos.multikueue import names
from fournos.multikueue.checks import checks_system
from fournos.multikueue.context import holds_quota
from fournos.multikueue.controller import dispatch_system
from fournos.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.multikueue.observe import Observer, fleet_watches, workload_of
from fournos.multikueue.post import make
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.workers import FOREIGN, Change, Look, Make, Remove, Send, Trouble
from fournos.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.queueing.release import release_quota
from fournos.runtime.system import Caches, System, Watch
from tests.world.server import Server
from tests.world.status import set_conditions

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


# --- the world at first ------------------------------------------------------------------------------


def fleet(server: Server, *workers: str) -> None:
    server.create(
        ADMISSION_CHECK,
        {
            "metadata": {"name": CHECK},
            "spec": {
                "controllerName": names.CONTROLLER,
                "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"},
            },
        },
    )
    used = list(workers or WORKERS)
    server.create(MULTIKUEUE_CONFIG, {"metadata": {"name": "all"}, "spec": {"clusters": used}})
    for name in used:
        server.create(MULTIKUEUE_CLUSTER, {"metadata": {"name": name}, "spec": {}})
    for name in WORKERS:
        server.create(LINE, {"metadata": {"name": name}, "spec": {}})


def line(server: Server, worker: str, **spec: Any) -> None:
    server.patch(LINE, Key("", worker), {"spec": spec})


def submit(
    server: Server, name: str = "a", *, managed_by: str | None = names.MULTIKUEUE, **metadata: Any
) -> None:
    meta = {"name": name, "namespace": NS, "labels": {"kueue.x-k8s.io/queue-name": "q"}, **metadata}
    server.create(FOO, {"metadata": meta, "spec": {"suspend": True, "managedBy": managed_by, "work": 1}})


# --- others at work ----------------------------------------------------------------------------------


def job_controller(server: Server) -> None:
    """On the manager: a Workload for each job; quota back when it is evicted."""
    for job in server.list(FOO, namespace=NS):
        meta = job["metadata"]
        workload = server.find(WORKLOAD, Key(NS, f"foo-{meta['name']}"))
        if workload is None and not is_terminating(job):
            owner = {"apiVersion": "example.com/v1", "kind": "Foo", "name": meta["name"], "uid": meta["uid"]}
            body = {
                "metadata": {
                    "name": f"foo-{meta['name']}",
                    "namespace": NS,
                    "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1}], "active": True},
            }
            server.create(WORKLOAD, body)
        elif workload is not None and is_true(workload, "Evicted") and is_true(workload, "QuotaReserved"):
            patch = release_quota(workload, server.clock.now())
            server.patch(WORKLOAD, key_of(workload), patch.body, subresource="status")


def kueue(server: Server) -> None:
    """On the manager: checks, quota, admission, eviction."""
    for workload in server.list(WORKLOAD, namespace=NS):
        status = workload.get("status") or {}
        if is_terminating(workload) or is_true(workload, "Finished"):
            continue
        checks = status.get("admissionChecks")
        state = checks[0]["state"] if checks else ""
        if not checks:
            set_conditions(
                server,
                WORKLOAD,
                workload,
                admissionChecks=[{"name": CHECK, "state": "Pending", "message": ""}],
            )
        elif state == "Rejected" and workload["spec"]["active"]:
            server.patch(WORKLOAD, key_of(workload), {"spec": {"active": False}})
        elif _must_go(workload, state) and not is_true(workload, "Evicted"):
            _evict(server, workload, state)
        elif is_true(workload, "QuotaReserved"):
            if state == "Ready" and not is_true(workload, "Admitted") and not is_true(workload, "Evicted"):
                set_conditions(server, WORKLOAD, workload, Condition("Admitted", "True", "Admitted", ""))
        elif workload["spec"]["active"]:
            told = Condition("QuotaReserved", "True", "QuotaReserved", "")
            set_conditions(
                server,
                WORKLOAD,
                workload,
                told,
                Condition("Evicted", "False", "QuotaReserved", ""),
                admission={},
            )


def _must_go(workload: Obj, state: str) -> bool:
    held = is_true(workload, "QuotaReserved")
    return held and (
        state == "Retry" or not workload["spec"]["active"] or bool(workload["spec"].get("evict"))
    )


def _evict(server: Server, workload: Obj, state: str) -> None:
    count = sum(
        one["count"] for one in (workload["status"].get("schedulingStats") or {}).get("evictions") or ()
    )
    check = workload["status"]["admissionChecks"][0]
    if state in ("Ready", "Retry"):
        check = {
            **check,
            "state": "Pending",
            "message": f"Reset to Pending after eviction. Previously: {state}",
        }
    if workload["spec"].get("evict"):
        server.patch(WORKLOAD, key_of(workload), {"spec": {"evict": None}})
    set_conditions(
        server,
        WORKLOAD,
        workload,
        Condition("Evicted", "True", "AdmissionCheck", "At least one admission check is false"),
        admissionChecks=[check],
        schedulingStats={"evictions": [{"reason": "AdmissionCheck", "count": count + 1}]},
    )


def worker_kueue(server: Server) -> None:
    for worker in WORKERS:
        able, resource = line_of(server, worker), at(worker, WORKLOAD)
        for workload in server.list(resource, namespace=NS):
            if is_terminating(workload) or is_true(workload, "Finished"):
                continue
            active = workload["spec"].get("active", True)
            if is_true(workload, "QuotaReserved"):
                if not is_true(workload, "Evicted") and (not active or able.get("evict")):
                    set_conditions(
                        server, resource, workload, Condition("Evicted", "True", "Preempted", "made room")
                    )
            elif active and not able.get("full") and not able.get("evict"):
                set_conditions(
                    server,
                    resource,
                    workload,
                    Condition("QuotaReserved", "True", "QuotaReserved", ""),
                    Condition("Admitted", "True", "Admitted", ""),
                    Condition("Evicted", "False", "QuotaReserved", ""),
                )


def worker_controller(server: Server) -> None:
    """The job's controller on the workers: adopts the prebuilt Workload, runs, ends, stops."""
    for worker in WORKERS:
        jobs, workloads = at(worker, FOO), at(worker, WORKLOAD)
        for job in server.list(jobs, namespace=NS):
            prebuilt = job["metadata"].get("labels", {}).get(names.PREBUILT)
            workload = server.find(workloads, Key(NS, str(prebuilt)))
            if workload is None or is_terminating(job) or is_true(workload, "Finished"):
                continue
            phase = (job.get("status") or {}).get("phase")
            if controller_of(workload) is None:
                owner = {"apiVersion": "example.com/v1", "kind": "Foo", "controller": True}
                owner |= {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
                server.patch(workloads, key_of(workload), {"metadata": {"ownerReferences": [owner]}})
            elif is_true(workload, "Evicted"):
                if phase == "Running":
                    _status(server, jobs, job, phase="Stopped", where=worker)
                elif holds_quota(workload):
                    told = (
                        Condition("QuotaReserved", "False", "Pending", ""),
                        Condition("Admitted", "False", "NoReservation", ""),
                    )
                    set_conditions(server, workloads, workload, *told)
            elif is_true(workload, "Admitted") and phase in (None, "Stopped"):
                _status(server, jobs, job, phase="Running", where=worker)
            elif phase == "Running" and line_of(server, worker).get("finish"):
                _status(server, jobs, job, phase="Succeeded", where=worker)
            elif phase == "Succeeded":
                set_conditions(
                    server, workloads, workload, Condition("Finished", "True", "Succeeded", "all done")
                )


def _status(server: Server, resource: Resource, job: Obj, **status: Any) -> None:
    seen = job["metadata"]["generation"]
    body = {"status": {**status, "observedGeneration": seen}}
    server.patch(resource, key_of(job), body, subresource="status")


ACTORS = (job_controller, kueue, worker_kueue, worker_controller)

# --- what is there -----------------------------------------------------------------------------------


def job(server: Server, name: str = "a") -> Any:
    return server.get(FOO, Key(NS, name))


def workload(server: Server, name: str = "a") -> Any:
    return server.get(WORKLOAD, Key(NS, f"foo-{name}"))


def state(server: Server, name: str = "a") -> str:
    return str(workload(server, name)["status"]["admissionChecks"][0]["state"])


def mirrors(server: Server) -> list[tuple[str, str]]:
    """Worker and name of each copy of a job."""
    return [
        (worker, one["metadata"]["name"])
        for worker in WORKERS
        for one in server.list(at(worker, FOO), selector=f"{names.ORIGIN_LABEL}=fournos")
    ]


def twins(server: Server) -> list[tuple[str, str]]:
    return [
        (worker, one["metadata"]["name"]) for worker in WORKERS for one in server.list(at(worker, WORKLOAD))
    ]


def says(server: Server, type_: str) -> tuple[str, str]:
    found = condition(server.get(ADMISSION_CHECK, Key("", CHECK)), type_) or {}
    return str(found.get("status") or ""), str(found.get("reason") or "")
