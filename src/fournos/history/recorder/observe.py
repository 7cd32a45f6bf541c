"""Reads from the caches: the recorded objects, what belongs to them, and why they wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import EVENT, JOB, NAMESPACE, POD, Key, Obj, Resource, newest, uid_of
from fournos.engine.queueing.workload import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
)
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches, Watch, no_keys, own_key, project_metadata
from fournos.history.logs.stored import StartedContainer, started_containers
from fournos.history.recorder.context import SWEEP, Gap, GoneObject, NotReady, Observed, ObservedObject, Sweep
from fournos.history.recorder.journal import Journal, StoredRun
from fournos.history.recorder.old_events import ABOUT
from fournos.history.recorder.packed import owners, packing, unpack
from fournos.history.recorder.projections import (
    about_value,
    event_of,
    held_cluster,
    own_name,
    project_dependent,
    project_event,
    project_pod,
    project_task_run,
    project_workload,
    regarded,
    waits_in,
)
from fournos.history.recorder.queue_facts import HELD, QUEUE, SharedQueueFacts
from fournos.history.settings import HistorySettings
from fournos.insight.children import Children, in_order
from fournos.insight.startup import has_started
from fournos.insight.values import spec_of, status_of
from fournos.systems.jobs.names import JOB_NAME_LABEL

if TYPE_CHECKING:
    from fournos.history.logs.collector import LogCollector

OWNER: Final = "owner"
NAME: Final = "name"
KUBE_SYSTEM: Final = Key("", "kube-system")


def watches(
    settings: HistorySettings, resource: Resource, logs: LogCollector | None = None
) -> tuple[Watch, ...]:
    """Returns the watches of the controller that records this kind."""
    namespace = settings.jobs_namespace
    shared = (
        Watch(
            WORKLOAD,
            namespace=namespace,
            wakes=_owned_by(resource),
            indexes={OWNER: owners, QUEUE: waits_in},
            project=project_workload,
            required=False,
        ),
        Watch(NAMESPACE, wakes=no_keys, project=project_metadata),
        Watch(
            EVENT,
            namespace=namespace,
            wakes=_regarding(resource),
            indexes={ABOUT: regarded},
            project=project_event,
        ),
        Watch(LOCAL_QUEUE, namespace=namespace, wakes=no_keys, required=False),
        Watch(CLUSTER_QUEUE, wakes=no_keys, required=False),
        Watch(RESOURCE_FLAVOR, wakes=no_keys, required=False),
    )
    if resource != FOURNOS_JOB:
        primary = Watch(resource, namespace=namespace, wakes=own_key, project=packing(), required=False)
        return (primary, *shared)
    labelled = [
        Watch(
            kind,
            namespace=namespace,
            selector=JOB_NAME_LABEL,
            wakes=wakes,
            indexes={OWNER: owners},
            project=project,
            required=kind in (JOB, POD),
        )
        for kind, wakes, project in (
            (PIPELINE_RUN, _labelled, project_dependent),
            (TASK_RUN, _until_started, project_task_run),
            (JOB, _labelled, project_dependent),
            (POD, _until_started if logs is None else _until_stored(logs), project_pod),
        )
    ]
    return (
        Watch(
            FOURNOS_JOB,
            namespace=namespace,
            wakes=own_key,
            indexes={HELD: held_cluster},
            project=packing(spec=("exclusive", "lockOnly"), status=("phase", "cluster")),
        ),
        *shared,
        *labelled,
        Watch(FOURNOS_CLUSTER, wakes=no_keys, indexes={NAME: own_name}, required=False),
    )


class Observer:
    """Builds `Observed` for the keys of one kind."""

    def __init__(
        self,
        settings: HistorySettings,
        resource: Resource,
        journal: Journal,
        clock: Clock,
        logs: LogCollector | None = None,
    ) -> None:
        self._settings = settings
        self._resource = resource
        self._journal = journal
        self._now = clock.now
        self._logs = logs
        self._facts = SharedQueueFacts(resource, clock.monotonic)

    def __call__(self, caches: Caches, key: Key) -> Observed | None:
        journal, packed = self._journal, caches[self._resource].get(key)
        gone = tuple(
            run for run in journal.at(key) if packed is None or run.run.identity.uid != uid_of(packed)
        )
        if packed is None and not gone and key != SWEEP:
            return None
        cluster, obj = cluster_uid(caches), unpack(packed) if packed is not None else None
        if not cluster or journal.since is None:
            return NotReady(key, self._resource, cluster, obj)
        if key == SWEEP:
            return Sweep(self._deleted(caches), self._down(), journal.quiet(self._now()))
        if obj is None:
            return GoneObject(key, gone, self._down())
        return self._object(caches, key, cluster, obj, gone)

    def _object(
        self, caches: Caches, key: Key, cluster: str, obj: Obj, gone: tuple[StoredRun, ...]
    ) -> ObservedObject:
        uid = uid_of(obj)
        stored = self._journal.get(uid)
        namespace = caches[NAMESPACE].get(Key("", key.namespace))
        workloads = tuple(map(unpack, caches[WORKLOAD].by(OWNER, uid)))
        children = self._children(caches, obj, workloads)
        events = self._events(caches, obj, children)
        made = (*children.runs, *children.task_runs, *children.pods, *children.resolve_jobs)
        return ObservedObject(
            key,
            self._resource,
            obj,
            cluster=cluster,
            namespace_uid=uid_of(namespace) if namespace is not None else "",
            children=children,
            facts=self._facts(caches, obj, children),
            workload=newest(workloads),
            target=self._target(caches, obj),
            events=events,
            versions=tuple(
                str(each["metadata"].get("resourceVersion")) for each in (obj, *workloads, *made, *events)
            ),
            stored=stored,
            looked_up=stored is not None or self._journal.is_missing(uid),
            suspected=self._journal.suspected(uid),
            gap=self._gap(obj, stored),
            gone=gone,
            down=self._down(),
            unstored=self._unstored(uid, children),
        )

    # --- the journal ---

    def _down(self) -> Gap | None:
        journal = self._journal
        if journal.since is None or journal.alive_until is None:
            return None
        return journal.alive_until, journal.since

    def _gap(self, obj: Obj, stored: StoredRun | None) -> Gap | None:
        """Returns the time in which no recorder ran, if this object existed then and is first seen now."""
        since = self._journal.since
        if since is None:
            return None
        if stored is not None:
            return self._down() if stored.resumed else None
        created = creation_time(obj)
        return (created, since) if created < since - timedelta(seconds=1) else None

    def _deleted(self, caches: Caches) -> tuple[StoredRun, ...]:
        """Returns the recorded runs whose objects do not exist."""
        store = caches[self._resource]
        result: list[StoredRun] = []
        for key in self._journal.every_key():
            packed = store.get(key)
            uid = uid_of(packed) if packed is not None else ""
            result += (one for one in self._journal.at(key) if one.run.identity.uid != uid)
        return tuple(result)

    # --- the object ---

    def _children(self, caches: Caches, obj: Obj, workloads: Iterable[Obj]) -> Children:
        if self._resource != FOURNOS_JOB:
            return Children(workloads=tuple(workloads))
        uid = uid_of(obj)
        runs, jobs = caches[PIPELINE_RUN].by(OWNER, uid), caches[JOB].by(OWNER, uid)
        task_runs = [one for run in runs for one in caches[TASK_RUN].by(OWNER, uid_of(run))]
        pods = [one for maker in (*task_runs, *jobs) for one in caches[POD].by(OWNER, uid_of(maker))]
        # Found by their owners' UIDs: nothing of another job is among them.
        return Children(*(in_order(map(unpack, kind)) for kind in (workloads, jobs, runs, task_runs, pods)))

    def _unstored(self, uid: str, children: Children) -> tuple[StartedContainer, ...]:
        if self._logs is None:
            return ()
        stored, asked = self._logs.stored(uid), self._logs.asked(uid)
        return tuple(
            replace(one, readable=one.readable and one.log.id not in asked)
            for one in started_containers(children)
            if one.log.id not in stored
        )

    def _events(self, caches: Caches, obj: Obj, children: Children) -> tuple[Obj, ...]:
        runs = (about_value(PIPELINE_RUN.kind, uid_of(run)) for run in children.runs)
        about = (about_value(self._resource.kind, uid_of(obj)), *runs)
        return tuple(event for value in about for event in caches[EVENT].by(ABOUT, value))

    def _target(self, caches: Caches, obj: Obj) -> Obj | None:
        if self._resource != FOURNOS_JOB:
            return None
        name = status_of(obj).get("cluster") or spec_of(obj).get("cluster") or ""
        clusters = caches[FOURNOS_CLUSTER].by(NAME, str(name))
        return next(iter(clusters), None) or caches[RESOURCE_FLAVOR].get(Key("", str(name)))


# --- events: which keys a change enqueues ---------------------------------------------------------------


def _owned_by(resource: Resource) -> Callable[[Obj, Caches], Iterable[Key]]:
    def keys(obj: Obj, caches: Caches) -> Iterable[Key]:
        namespace = obj["metadata"].get("namespace") or ""
        return tuple(Key(namespace, name) for kind, name in obj.get("ownedBy") or () if kind == resource.kind)

    return keys


def _labelled(obj: Obj, caches: Caches) -> Iterable[Key]:
    return (Key(obj["metadata"]["namespace"], obj["job"]),) if obj.get("job") else ()


def _until_started(obj: Obj, caches: Caches) -> Iterable[Key]:
    """Enqueues the job while no container has started, and with the first start: that ends its wait.

    Later changes are read with the next change of the run or of the job: a pass for each would be a waste.
    """
    return () if has_started(obj) else _labelled(obj, caches)


def _until_stored(logs: LogCollector) -> Callable[[Obj, Caches], Iterable[Key]]:
    """As `_until_started`, and with each end of a container whose log is not stored."""

    def keys(obj: Obj, caches: Caches) -> Iterable[Key]:
        return _labelled(obj, caches) if not has_started(obj) or logs.behind(obj) else ()

    return keys


def _regarding(resource: Resource) -> Callable[[Obj, Caches], Iterable[Key]]:
    def keys(obj: Obj, caches: Caches) -> Iterable[Key]:
        name = event_of(obj).get("name") if obj.get("kind") == resource.kind else ""
        return (Key(obj["metadata"].get("namespace") or "", name),) if name else ()

    return keys


def cluster_uid(caches: Caches) -> str:
    """Returns the UID of the namespace kube-system, which identifies the cluster; "" while unknown."""
    found = caches[NAMESPACE].get(KUBE_SYSTEM)
    return uid_of(found) if found is not None else ""
