"""What the recorder watches and keeps of it, and the observed state of one object or of none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.kube.resource import (
    EVENT,
    JOB,
    NAMESPACE,
    POD,
    Key,
    Obj,
    Resource,
    is_terminating,
    newest,
    owner_uids,
    uid_of,
)
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.controller import (
    Caches,
    Watch,
    metadata,
    no_keys,
    own_key,
    pick,
    project_metadata,
)
from fournos.history.logs.stored import StartedContainer, started_containers
from fournos.history.recorder.steps import Journal, StoredRun
from fournos.history.records import Identity
from fournos.history.settings import HistorySettings
from fournos.insight.children import Children, has_started, in_order
from fournos.insight.values import spec_of, status_of
from fournos.systems.jobs.names import JOB_NAME_LABEL

if TYPE_CHECKING:
    from fournos.history.logs.collector import LogCollector

OWNER: Final = "owner"
NAME: Final = "name"
ABOUT: Final = "about"
KUBE_SYSTEM: Final = Key("", "kube-system")
SWEEP: Final = Key("", "")
"""The key of the pass that closes the runs whose objects were deleted unseen."""


@dataclass(frozen=True, slots=True)
class NotReady:
    """A key before the UID of the cluster is known, or before the open runs of earlier processes are read."""

    key: Key
    resource: Resource
    cluster: str
    """As in `ObservedObject`."""
    obj: Obj | None
    """The object; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The pass over all keys of a kind."""

    key: ClassVar[Key] = SWEEP
    gone: tuple[StoredRun, ...]
    """The recorded runs whose objects do not exist any more."""


@dataclass(frozen=True, slots=True)
class GoneObject:
    """A key without an object, of which runs are recorded."""

    key: Key
    gone: tuple[StoredRun, ...]
    """As in `Sweep`."""


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """An object that exists, as the caches and the journal show it."""

    key: Key
    resource: Resource
    obj: Obj
    cluster: str = ""
    """The UID of the namespace kube-system."""
    namespace_uid: str = ""
    children: Children = field(default_factory=Children)
    workload: Obj | None = None
    """Its newest Workload."""
    target: Obj | None = None
    """The FournosCluster that it is assigned to, or asks for; without one the ResourceFlavor."""
    events: tuple[Obj, ...] = ()
    versions: tuple[str, ...] = ()
    """The resourceVersions of the object and of all that its documents show."""
    stored: StoredRun | None = None
    """What is recorded of the object."""
    looked_up: bool = True
    """False: an earlier process may have recorded the object, and the store was not asked."""
    suspected: bool | None = None
    """Whether the results of an ended job are suspected to be a regression; None: not compared yet."""
    gone: tuple[StoredRun, ...] = ()
    """The recorded runs of earlier objects of this name."""
    unstored: tuple[StartedContainer, ...] = ()
    """Its started containers whose logs are not stored; those that are being stored are not readable."""

    @property
    def identity(self) -> Identity:
        return Identity(self.cluster, self.key.namespace, uid_of(self.obj))

    @property
    def deleting(self) -> bool:
        return is_terminating(self.obj)


Observed: TypeAlias = NotReady | Sweep | GoneObject | ObservedObject
"""The observed state of one key."""


# --- what is watched ------------------------------------------------------------------------------------


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
            indexes={OWNER: owner_uids},
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
        Watch(RESOURCE_FLAVOR, wakes=no_keys, required=False),
    )
    if resource != FOURNOS_JOB:
        primary = Watch(resource, namespace=namespace, wakes=own_key, project=project_whole, required=False)
        return (primary, *shared)
    labelled = [
        Watch(
            kind,
            namespace=namespace,
            selector=JOB_NAME_LABEL,
            wakes=wakes,
            indexes={OWNER: owner_uids},
            project=project,
            required=kind in (JOB, POD),
        )
        for kind, wakes, project in (
            (PIPELINE_RUN, _labelled, project_whole),
            (TASK_RUN, _until_started, project_task_run),
            (JOB, _labelled, project_whole),
            (POD, _until_started if logs is None else _until_stored(logs), project_pod),
        )
    ]
    return (
        Watch(FOURNOS_JOB, namespace=namespace, wakes=own_key, project=project_whole),
        *shared,
        *labelled,
        Watch(FOURNOS_CLUSTER, wakes=no_keys, indexes={NAME: own_name}, required=False),
    )


def forget_events(caches: Caches, resources: dict[str, Resource]) -> None:
    """Removes the Events of objects that are gone from the cache: Kubernetes keeps Events for an hour.

    `resources`: kind of the objects whose Events these are → the cache that has all of them.  An Event that
    changes, or another list of the Events, brings them back, until they are found again.
    """
    live = {about_value(kind, uid_of(obj)) for kind, one in resources.items() for obj in caches[one]}
    for value in caches[EVENT].values(ABOUT):
        if value == UNRECORDED or (value not in live and value.partition("/")[0] in resources):
            caches[EVENT].forget(ABOUT, value)


# --- which keys a change enqueues -----------------------------------------------------------------------


def _owned_by(resource: Resource) -> Callable[[Obj, Caches], Iterable[Key]]:
    def keys(obj: Obj, caches: Caches) -> Iterable[Key]:
        namespace = obj["metadata"].get("namespace") or ""
        owners = obj["metadata"].get("ownerReferences") or ()
        return tuple(Key(namespace, one["name"]) for one in owners if one.get("kind") == resource.kind)

    return keys


def _labelled(obj: Obj, caches: Caches) -> Iterable[Key]:
    job = (obj["metadata"].get("labels") or {}).get(JOB_NAME_LABEL)
    return (Key(obj["metadata"]["namespace"], job),) if job else ()


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
        name = obj["event"]["name"] if obj.get("kind") == resource.kind else ""
        return (Key(obj["metadata"].get("namespace") or "", name),) if name else ()

    return keys


# --- what the caches keep -------------------------------------------------------------------------------

_EVENTS_OF: Final = frozenset({"FournosJob", "PipelineRun", "AppWrapper", "MiniCluster"})
"""The kinds whose Events are recorded."""
UNRECORDED: Final = ""
"""The value of `regarded` for Events about objects of other kinds."""


def own_name(obj: Obj) -> Iterable[str]:
    return (str(obj["metadata"]["name"]),)


def about_value(kind: str, uid: str) -> str:
    """Returns the value of `regarded` for the Events about this object."""
    return f"{kind}/{uid}"


def regarded(event: Obj) -> Iterable[str]:
    return (about_value(event["kind"], event["about"]) if "about" in event else UNRECORDED,)


def project_whole(obj: Obj) -> Obj:
    """Keeps all but managedFields."""
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": meta}


def project_workload(workload: Obj) -> Obj:
    """Keeps the quota of a Workload and why it has none, without the templates of its pods."""
    return {
        "metadata": metadata(workload),
        "spec": pick(workload.get("spec"), ("queueName", "active", "priority")),
        "status": pick(workload.get("status"), ("conditions", "admission")),
    }


def project_pod(pod: Obj) -> Obj:
    """Keeps what is read of a pod, with the names of its containers in their order."""
    names = [{"name": one["name"]} for one in spec_of(pod).get("containers") or ()]
    return {
        "metadata": metadata(pod),
        "spec": pick(pod.get("spec"), ("nodeName",)) | {"containers": names},
        "status": pod.get("status") or {},
    }


def project_task_run(task_run: Obj) -> Obj:
    """Keeps what is read of a TaskRun, with what tells it from one that somebody else has made."""
    return {
        "metadata": metadata(task_run),
        "spec": task_run.get("spec") or {},
        "status": task_run.get("status") or {},
    }


def project_event(event: Obj) -> Obj:
    """Keeps what the history shows of an Event, and of one about another kind only the name."""
    about = event.get("regarding") or event.get("involvedObject") or {}
    meta = pick(event["metadata"], ("namespace", "name", "uid", "resourceVersion"))
    if (kind := about.get("kind")) not in _EVENTS_OF:
        return {"metadata": meta}
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
    shown: dict[str, Any] = {
        "kind": kind,
        "name": about.get("name"),
        "type": event.get("type"),
        "reason": event.get("reason"),
        "note": event.get("note"),
        "count": series.get("count") or event.get("deprecatedCount") or 1,
        "at": str(at or event["metadata"].get("creationTimestamp") or ""),
    }
    return {"metadata": meta, "kind": kind, "about": str(about.get("uid") or ""), "event": shown}


# --- the observed state ---------------------------------------------------------------------------------


class Observer:
    """Builds `Observed` for the keys of one kind."""

    def __init__(self, resource: Resource, journal: Journal, logs: LogCollector | None = None) -> None:
        self._resource = resource
        self._journal = journal
        self._logs = logs

    def __call__(self, caches: Caches, key: Key) -> Observed | None:
        journal, obj = self._journal, caches[self._resource].get(key)
        gone = tuple(run for run in journal.at(key) if obj is None or run.run.identity.uid != uid_of(obj))
        if obj is None and not gone and key != SWEEP:
            return None
        cluster = cluster_uid(caches)
        if not cluster or not journal.opened:
            return NotReady(key, self._resource, cluster, obj)
        if key == SWEEP:
            return Sweep(self._deleted(caches))
        if obj is None:
            return GoneObject(key, gone)
        return self._object(caches, key, cluster, obj, gone)

    def _object(
        self, caches: Caches, key: Key, cluster: str, obj: Obj, gone: tuple[StoredRun, ...]
    ) -> ObservedObject:
        uid = uid_of(obj)
        namespace = caches[NAMESPACE].get(Key("", key.namespace))
        workloads = tuple(caches[WORKLOAD].by(OWNER, uid))
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
            workload=newest(workloads),
            target=self._target(caches, obj),
            events=events,
            versions=tuple(
                str(each["metadata"].get("resourceVersion")) for each in (obj, *workloads, *made, *events)
            ),
            stored=self._journal.get(uid),
            looked_up=self._journal.looked_up(uid),
            suspected=self._journal.suspected(uid),
            gone=gone,
            unstored=self._unstored(uid, children),
        )

    def _deleted(self, caches: Caches) -> tuple[StoredRun, ...]:
        """Returns the recorded runs whose objects do not exist."""
        store = caches[self._resource]
        result: list[StoredRun] = []
        for key in self._journal.every_key():
            obj = store.get(key)
            uid = uid_of(obj) if obj is not None else ""
            result += (one for one in self._journal.at(key) if one.run.identity.uid != uid)
        return tuple(result)

    def _children(self, caches: Caches, obj: Obj, workloads: tuple[Obj, ...]) -> Children:
        if self._resource != FOURNOS_JOB:
            return Children(workloads=workloads)
        uid = uid_of(obj)
        runs, jobs = caches[PIPELINE_RUN].by(OWNER, uid), caches[JOB].by(OWNER, uid)
        task_runs = [one for run in runs for one in caches[TASK_RUN].by(OWNER, uid_of(run))]
        pods = [one for maker in (*task_runs, *jobs) for one in caches[POD].by(OWNER, uid_of(maker))]
        # Found by their owners' UIDs: nothing of another job is among them.
        return Children(*(in_order(kind) for kind in (workloads, jobs, runs, task_runs, pods)))

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


def cluster_uid(caches: Caches) -> str:
    """Returns the UID of the namespace kube-system, which identifies the cluster; "" while unknown."""
    found = caches[NAMESPACE].get(KUBE_SYSTEM)
    return uid_of(found) if found is not None else ""
