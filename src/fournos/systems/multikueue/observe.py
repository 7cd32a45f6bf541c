"""Reads from the caches and workers: watches, indexes, projections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fournos.engine.api.conditions import condition
from fournos.engine.api.values import parse_time
from fournos.engine.kube.fleet import FleetWatch
from fournos.engine.kube.resource import Key, Obj, Resource, controller_of, key_of, uid_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.engine.runtime.controller import Caches, Watch, controller_uid, metadata, of_each, own_key, pick
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.systems.multikueue.remote import RemoteFailure
from fournos.systems.multikueue.settings import MultiKueueSettings

if TYPE_CHECKING:
    from fournos.systems.multikueue.remote_clients import RemoteClients

CHECK, CONFIG, OF_WORKLOAD, OWNER = "check", "config", "workload", "owner"


@dataclass(frozen=True, slots=True)
class Remote:
    """A worker, and the objects of one Workload that exist there."""

    name: str
    listed: bool
    """True if the check's MultiKueueConfig lists the worker."""
    usable: bool
    """True if the worker is reachable and all its watches are up to date."""
    unusable_reason: str = ""
    workload: Obj | None = None
    jobs: tuple[tuple[Resource, Obj], ...] = ()
    busy: bool = False
    failure: RemoteFailure | None = None
    last_read: str = ""
    lost_since: datetime | None = None
    """The time since which the worker is unusable, from the AdmissionCheck's condition.

    A restart of the operator does not reset it.
    """

    @property
    def empty(self) -> bool:
        return self.workload is None and not self.jobs


@dataclass(frozen=True, slots=True)
class Observed:
    """A Workload of the manager cluster, and its objects on workers."""

    key: Key
    workload: Obj | None
    """The Workload, or None if it is gone and a worker still has objects of it."""
    check: Obj | None
    """The AdmissionCheck of this adapter on the Workload, or None."""
    kind: Resource | None
    """The type of the owning job, if this adapter dispatches that type."""
    job: Obj | None
    remotes: tuple[Remote, ...]
    """All workers; those of the check's MultiKueueConfig come first, in its order."""
    config_missing: bool = False
    """True if the check's MultiKueueConfig does not exist, as while it is replaced."""


def watches(settings: MultiKueueSettings) -> tuple[Watch, ...]:
    """Returns the watches of the controller whose keys are Workloads of the manager cluster."""
    return (
        Watch(
            WORKLOAD,
            wakes=own_key,
            project=project_workload,
            indexes={CHECK: _checks, OWNER: controller_uid},
        ),
        Watch(
            ADMISSION_CHECK,
            wakes=_wakes_of_check,
            project=project_check,
            indexes={CONFIG: config_of},
        ),
        Watch(MULTIKUEUE_CONFIG, wakes=_wakes_of_config),
        # A change that matters here changes the connection, which wakes all Workloads.
        Watch(MULTIKUEUE_CLUSTER, wakes=lambda cluster, caches: (), project=project_cluster),
        *(Watch(kind, wakes=_wakes_of_job, project=project_job, required=False) for kind in settings.kinds),
    )


def is_ours(check: Obj) -> bool:
    """Returns True if an AdmissionCheck is this adapter's."""
    return bool(check["spec"].get("controllerName") == names.CONTROLLER)


def _wakes_of_check(check: Obj, caches: Caches) -> Iterable[Key]:
    if not is_ours(check):
        return ()
    return tuple(key_of(one) for one in caches[WORKLOAD].by(CHECK, check["metadata"]["name"]))


def _wakes_of_config(config: Obj, caches: Caches) -> Iterable[Key]:
    return tuple(
        key
        for check in caches[ADMISSION_CHECK].by(CONFIG, config["metadata"]["name"])
        for key in _wakes_of_check(check, caches)
    )


def _wakes_of_job(job: Obj, caches: Caches) -> Iterable[Key]:
    return tuple(key_of(one) for one in caches[WORKLOAD].by(OWNER, str(job["metadata"]["uid"])))


def fleet_watches(settings: MultiKueueSettings) -> tuple[FleetWatch, ...]:
    """Returns the watches on every worker: only objects with this manager cluster's origin label."""
    selector = f"{names.ORIGIN_LABEL}={settings.origin}"
    return (
        FleetWatch(WORKLOAD, selector=selector, project=project_remote_workload),
        *(
            FleetWatch(
                kind, selector=selector, project=project_remote_job, indexes={OF_WORKLOAD: of_workload}
            )
            for kind in settings.kinds
        ),
    )


def workload_of(obj: Obj) -> Key:
    """Returns the key of the manager cluster's Workload that an object on a worker belongs to."""
    if name := prebuilt(obj):
        return Key(key_of(obj).namespace, name)
    return key_of(obj)


def prebuilt(obj: Obj) -> str:
    """Returns the name of the prebuilt Workload of an object, or ""."""
    meta = obj["metadata"]
    name = (meta.get("annotations") or {}).get(names.PREBUILT) or (meta.get("labels") or {}).get(
        names.PREBUILT
    )
    return str(name or "")


def of_workload(job: Obj) -> Iterable[str]:
    return (str(workload_of(job)),)


def observe(
    caches: Caches, key: Key, *, settings: MultiKueueSettings, workers: RemoteClients
) -> Observed | None:
    """Returns the Workload with its job, and their objects on each worker; None if there is nothing to do."""
    workload = caches[WORKLOAD].get(key)
    check = _check_of(caches, workload) if workload is not None else None
    config = config_for(caches, check)
    in_config = clusters_of(config)
    kind = _kind_of(workload, settings)
    winner = str(((workload or {}).get("status") or {}).get("clusterName") or "")
    # The winner counts from the start of this process on, before it is connected.
    known = (*in_config, *workers.names(), *((winner,) if exists(caches, winner) else ()))
    remotes = tuple(
        _remote(name, key, kind, check, caches, settings=settings, workers=workers, listed=name in in_config)
        for name in dict.fromkeys(known)
    )
    if check is None and not any(remote.workload or remote.jobs for remote in remotes):
        return None
    owner = controller_of(workload) if workload is not None else None
    job = caches[kind].get(Key(key.namespace, str(owner["name"]))) if kind and owner else None
    return Observed(key, workload, check, kind, job, remotes, config_missing=config is None)


def _check_of(caches: Caches, workload: Obj) -> Obj | None:
    found = (caches[ADMISSION_CHECK].get(Key("", name)) for name in _checks(workload))
    return next((check for check in found if check is not None and is_ours(check)), None)


def _kind_of(workload: Obj | None, settings: MultiKueueSettings) -> Resource | None:
    owner = controller_of(workload) if workload is not None else None
    if owner is None:
        return None
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    kinds = settings.kinds
    return next((one for one in kinds if (one.group, one.kind) == (group, owner.get("kind"))), None)


def _remote(
    name: str,
    key: Key,
    kind: Resource | None,
    check: Obj | None,
    caches: Caches,
    *,
    settings: MultiKueueSettings,
    workers: RemoteClients,
    listed: bool,
) -> Remote:
    store = workers.store(name, WORKLOAD)
    jobs: list[tuple[Resource, Obj]] = []
    for resource in settings.kinds:
        found = workers.store(name, resource)
        if found is not None:
            there = (job for job in found.by(OF_WORKLOAD, str(key)) if _is_through(name, job, caches))
            jobs += [(resource, _seen(name, job, workers)) for job in there]
    workload = store.get(key) if store is not None else None
    if workload is not None and not _is_through(name, workload, caches):
        workload = None
    unusable_reason = workers.unusable_reason(name, kind)
    return Remote(
        name=name,
        listed=listed,
        usable=workers.probed(name) and not unusable_reason,
        unusable_reason=unusable_reason,
        workload=_seen(name, workload, workers) if workload is not None else None,
        jobs=tuple(jobs),
        busy=workers.busy(name, key),
        failure=workers.failure(name, key),
        last_read=workers.last_read(name, key),
        lost_since=_lost_since(check, name),
    )


def _is_through(name: str, obj: Obj, caches: Caches) -> bool:
    """Returns True if the object was created through this MultiKueueCluster, or through one that is gone.

    One that is not connected at the moment is not gone: two of them may lead to the same cluster.
    """
    made = (obj["metadata"].get("annotations") or {}).get(names.WORKER)
    return made in (None, name) or not exists(caches, str(made))


def _seen(name: str, obj: Obj, workers: RemoteClients) -> Obj:
    """Returns the object, marked as terminating if its deletion was already accepted.

    Under load a pass often precedes the watch event.  The mark prevents a second deletion.
    """
    if not workers.deleted(name, uid_of(obj)):
        return obj
    return {**obj, "metadata": {"deletionTimestamp": "accepted", **obj["metadata"]}}


def remote_keys(settings: MultiKueueSettings, workers: RemoteClients) -> Iterable[Key]:
    """Returns the keys of Workloads that own objects on workers, including Workloads that are gone."""
    keys: dict[Key, None] = {}
    for name in workers.names():
        for resource in (WORKLOAD, *settings.kinds):
            store = workers.store(name, resource)
            keys |= dict.fromkeys(of_each(store or (), workload_of, f"objects on worker {name}"))
    return tuple(keys)


def config_for(caches: Caches, check: Obj | None) -> Obj | None:
    """Returns the MultiKueueConfig of an AdmissionCheck, None if it does not exist."""
    names_ = config_of(check) if check is not None else ()
    return next((caches[MULTIKUEUE_CONFIG].get(Key("", name)) for name in names_), None)


def exists(caches: Caches, cluster: str) -> bool:
    """Returns True if there is a MultiKueueCluster of this name."""
    return caches[MULTIKUEUE_CLUSTER].get(Key("", cluster)) is not None


def reported_workers(check: Obj) -> tuple[str, ...]:
    """Returns the workers of which an AdmissionCheck has a condition."""
    conditions = (check.get("status") or {}).get("conditions") or ()
    prefix = names.WORKER_CONDITION
    return tuple(one["type"].removeprefix(prefix) for one in conditions if one["type"].startswith(prefix))


def clusters_of(config: Obj | None) -> tuple[str, ...]:
    """Returns the clusters of a MultiKueueConfig, at most MAX_WORKERS."""
    found = ((config or {}).get("spec") or {}).get("clusters") or ()
    return tuple(map(str, found))[: names.MAX_WORKERS]


def _lost_since(check: Obj | None, worker: str) -> datetime | None:
    connection = condition(check, f"{names.WORKER_CONDITION}{worker}") if check is not None else None
    if connection is None or connection.get("status") != "False":
        return None
    return parse_time(str(connection["lastTransitionTime"]))


# --- indexes -----------------------------------------------------------------------------------------


def config_of(check: Obj) -> Iterable[str]:
    parameters = check["spec"].get("parameters") or {}
    return (str(parameters["name"]),) if parameters.get("kind") == MULTIKUEUE_CONFIG.kind else ()


def _checks(workload: Obj) -> Iterable[str]:
    return tuple(str(one["name"]) for one in (workload.get("status") or {}).get("admissionChecks") or ())


# --- projections -------------------------------------------------------------------------------------


def project_workload(workload: Obj) -> Obj:
    """Keeps the whole spec, which is copied to workers, and the whole status.

    A status field that is not kept would appear to be removed by the next write.
    """
    return {
        "metadata": metadata(workload, "finalizers", "annotations"),
        "spec": workload["spec"],
        "status": workload.get("status") or {},
    }


def project_cluster(cluster: Obj) -> Obj:
    """Keeps only the metadata: existence matters, and Kueue owns the status."""
    return {"metadata": pick(cluster["metadata"], ("name", "uid", "resourceVersion", "deletionTimestamp"))}


def project_check(check: Obj) -> Obj:
    return {
        "metadata": metadata(check, "finalizers", "annotations"),
        "spec": check["spec"],
        "status": pick(check.get("status"), ("conditions",)),
    }


def project_job(job: Obj) -> Obj:
    """Returns the full object when it is dispatched, otherwise only its metadata and managedBy."""
    managed_by = (job.get("spec") or {}).get("managedBy")
    if managed_by == names.MULTIKUEUE:
        return job
    return {
        "metadata": pick(job["metadata"], ("name", "namespace", "uid", "resourceVersion")),
        "spec": {"managedBy": managed_by},
    }


def project_remote_workload(workload: Obj) -> Obj:
    return {
        "metadata": _remote_metadata(workload),
        "spec": pick(_map(workload.get("spec")), ("active", "priority", "priorityClassRef")),
        "status": {"conditions": _conditions(_map(workload.get("status")))},
    }


def project_remote_job(job: Obj) -> Obj:
    """Keeps the status and the annotations that identify the owner on the manager cluster."""
    meta, status = _remote_metadata(job), dict(_map(job.get("status")))
    kept = (names.PREBUILT, names.JOB_UID, names.ATTEMPT, names.WORKER)
    if "conditions" in status:
        found = _list_of(status, "conditions")
        typed = [one for one in found if isinstance(one, Mapping) and isinstance(one.get("type", ""), str)]
        status["conditions"] = typed
    return {
        "metadata": {**meta, "annotations": pick(meta["annotations"], kept)},
        "status": status,
    }


def _remote_metadata(obj: Obj) -> dict[str, Any]:
    """Returns the metadata that is read, with the types that it must have: a worker may return anything.

    One object of another form must not stop what is read of the others.
    """
    meta = obj["metadata"]
    return {
        **{name: str(meta.get(name) or "") for name in ("name", "namespace", "uid", "resourceVersion")},
        **{name: _texts(meta.get(name)) for name in ("labels", "annotations")},
        "finalizers": [str(name) for name in _list_of(meta, "finalizers")],
        "generation": meta.get("generation"),
        **({"deletionTimestamp": "set"} if meta.get("deletionTimestamp") else {}),
    }


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> dict[str, str]:
    return {name: text for name, text in _map(value).items() if isinstance(text, str)}


def _conditions(status: Mapping[str, Any]) -> list[Obj]:
    """Returns the well-formed conditions, so that decisions need not validate the answers of a worker."""
    return [one for one in _list_of(status, "conditions") if _is_condition(one)]


def _list_of(status: Mapping[str, Any], name: str) -> list[Any]:
    found = status.get(name)
    return found if isinstance(found, list) else []


def _is_condition(value: Any) -> bool:
    texts = ("type", "status", "lastTransitionTime")
    if not isinstance(value, Mapping) or not all(isinstance(value.get(name), str) for name in texts):
        return False
    try:
        parse_time(value["lastTransitionTime"])
    except ValueError:
        return False
    return True
