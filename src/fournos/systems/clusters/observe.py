"""Turns the caches and connections into the input of a decision: watches, projections and indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.api.fournoscluster import FournosClusterSpec
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.api.phase import HOLDING
from fournos.engine.kube.fleet import Fleet
from fournos.engine.kube.resource import NODE, SECRET, Key, Obj, controller_of, key_of, newest, uid_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.runtime.context import read
from fournos.engine.runtime.controller import (
    METADATA,
    Caches,
    Watch,
    controller_uid,
    metadata,
    no_keys,
    own_key,
    pick,
    project_metadata,
    waking_all,
    waking_by,
)
from fournos.systems.clusters import build
from fournos.systems.clusters.gpus import is_gpu_label, is_gpu_resource
from fournos.systems.clusters.quotas import above_quota, flavors_held, foreign_holds, is_lock, is_of_job
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.clusters.status import DeletedCluster, Observed

BY_KUBECONFIG: Final = "kubeconfig"
"""The index of FournosClusters by the name of their kubeconfig Secret."""


def secret_of(cluster: Obj) -> Iterable[str]:
    """Returns the index values of BY_KUBECONFIG."""
    return (str((cluster.get("spec") or {}).get("kubeconfigSecret") or ""),)


@dataclass(frozen=True, slots=True)
class Wakes:
    """Maps objects that name a cluster to its key in the namespace of the FournosClusters."""

    namespace: str

    def of_job(self, job: Obj, caches: Caches) -> Iterable[Key]:
        """Returns the cluster that a FournosJob asks for, the one it has, and the one it locks."""
        lock = (job["metadata"].get("labels") or {}).get(build.LOCK_LABEL)
        named = (job["spec"].get("cluster"), job["status"].get("cluster"), lock)
        return tuple(self._key(str(name)) for name in dict.fromkeys(named) if name)

    def of_workload(self, workload: Obj, caches: Caches) -> Iterable[Key]:
        """Returns the cluster that a lock's Workload locks, or the clusters whose quota another one holds."""
        if not is_of_job(workload):
            return tuple(self._key(name) for name in flavors_held(workload))
        owner = str((controller_of(workload) or {}).get("name") or "")
        locked = owner.startswith(build.LOCK_PREFIX)
        return (self._key(owner.removeprefix(build.LOCK_PREFIX)),) if locked else ()

    def of_flavor(self, flavor: Obj, caches: Caches) -> Iterable[Key]:
        return (self._key(flavor["metadata"]["name"]),)

    def _key(self, name: str) -> Key:
        return Key(self.namespace, name)


OWNER, HOLDS, RUNNING, WAITING = "owner", "holds", "running", "waiting"


def watches(settings: ClusterSettings) -> tuple[Watch, ...]:
    """Returns the watches of the controller whose primary kind is FournosCluster."""
    wakes = Wakes(settings.namespace)
    return (
        Watch(
            FOURNOS_CLUSTER,
            namespace=settings.namespace,
            wakes=own_key,
            indexes={BY_KUBECONFIG: secret_of},
        ),
        Watch(
            SECRET,
            namespace=settings.secrets_namespace,
            selector=build.SECRET_SELECTOR,
            wakes=waking_by(FOURNOS_CLUSTER, BY_KUBECONFIG),
            project=project_secret,
        ),
        Watch(
            FOURNOS_JOB,
            namespace=settings.execution_namespace,
            wakes=wakes.of_job,
            project=project_job,
            indexes={RUNNING: _runs_on, WAITING: _waits_for},
            required=False,
        ),
        Watch(
            WORKLOAD,
            namespace=settings.execution_namespace,
            wakes=wakes.of_workload,
            project=project_workload,
            indexes={OWNER: controller_uid, HOLDS: foreign_holds},
            required=False,
        ),
        Watch(RESOURCE_FLAVOR, wakes=wakes.of_flavor, project=project_flavor, required=False),
        Watch(CLUSTER_QUEUE, wakes=waking_all(FOURNOS_CLUSTER), project=project_queue, required=False),
        Watch(WORKLOAD_PRIORITY_CLASS, wakes=no_keys, project=project_metadata, required=False),
    )


class Observer:
    """Collects the input of a decision for one FournosCluster from the caches and the connections."""

    def __init__(self, settings: ClusterSettings, fleet: Fleet) -> None:
        self._settings = settings
        self._fleet = fleet

    def __call__(self, caches: Caches, key: Key) -> Observed | DeletedCluster | None:
        name, fleet = key.name, self._fleet
        cluster = caches[FOURNOS_CLUSTER].get(key)
        if cluster is None:
            return DeletedCluster(key) if fleet.version_of(name) is not None else None
        # The published CRD accepts an object without a spec. It is read like one with an empty Secret name.
        fields = {"kubeconfigSecret": "", **(cluster.get("spec") or {})}
        if not isinstance(fields["kubeconfigSecret"], str):
            fields["kubeconfigSecret"] = ""
        spec = read(FournosClusterSpec, fields, *fields)
        # Stores of the cluster's own connection, not the informer caches of this cluster.
        nodes = fleet.store(name, NODE)
        error = fleet.watch_error(name, NODE)
        lock_job = caches[FOURNOS_JOB].get(Key(self._settings.execution_namespace, build.lock_name(name)))
        running = sorted(
            (job for job in caches[FOURNOS_JOB].by(RUNNING, name)), key=lambda job: key_of(job).name
        )
        return Observed(
            key=key,
            cluster=cluster,
            spec=spec,
            secret=caches[SECRET].get(Key(self._settings.secrets_namespace, spec.kubeconfig_secret)),
            connected=fleet.version_of(name),
            probe=fleet.probe(name),
            nodes=tuple(nodes) if nodes is not None and nodes.synced else None,
            nodes_error=error.message if error is not None else "",
            lock_job=lock_job,
            lock_workload=self._lock_workload(caches, lock_job),
            flavor=caches[RESOURCE_FLAVOR].get(Key("", name)),
            queue=queue_of(caches, self._settings),
            running=tuple(job["metadata"]["name"] for job in running),
            stoppable=tuple(job["metadata"]["name"] for job in running if not job["spec"].get("shutdown")),
            foreign=tuple(sorted(key_of(found).name for found in caches[WORKLOAD].by(HOLDS, name))),
            waiting=tuple(sorted(key_of(job).name for job in caches[FOURNOS_JOB].by(WAITING, name))),
            classes=frozenset(found["metadata"]["name"] for found in caches[WORKLOAD_PRIORITY_CLASS]),
        )

    @staticmethod
    def _lock_workload(caches: Caches, lock_job: Obj | None) -> Obj | None:
        if lock_job is None:
            return None
        return newest(caches[WORKLOAD].by(OWNER, uid_of(lock_job)))


def queue_of(caches: Caches, settings: ClusterSettings) -> Obj | None:
    """Returns the ClusterQueue of the settings from the cache; None if it does not exist."""
    return caches[CLUSTER_QUEUE].get(Key("", settings.kueue_cluster_queue_name))


# --- indexes -----------------------------------------------------------------------------------------


def _runs_on(job: Obj) -> Iterable[str]:
    status = job["status"]
    runs = status.get("cluster") and status.get("phase") in HOLDING
    return (str(status["cluster"]),) if runs and not is_lock(job, status["cluster"]) else ()


def _waits_for(job: Obj) -> Iterable[str]:
    cluster = job["spec"].get("cluster")
    waits = cluster and job["status"].get("phase") == "Pending" and not is_lock(job, cluster)
    return (str(cluster),) if waits else ()


# --- projections -------------------------------------------------------------------------------------


def project_secret(secret: Obj) -> Obj:
    """Returns the Secret without any of its data."""
    # Secrets have no generation
    meta = pick(secret["metadata"], [name for name in METADATA if name != "generation"])
    annotations = pick(secret["metadata"].get("annotations"), (build.OWNER_ANNOTATION,))
    return {
        "metadata": {**meta, "annotations": annotations},
        # A change of the data is visible in this field only.
        "version": secret["metadata"].get("resourceVersion"),
        "hasKubeconfig": bool((secret.get("data") or {}).get(build.SECRET_KEY)),
    }


def project_job(job: Obj) -> Obj:
    """Returns the fields of a FournosJob that decisions read."""
    return {
        "metadata": metadata(job),
        "spec": pick(job.get("spec"), ("cluster", "owner", "displayName", "shutdown", "lockOnly")),
        "status": pick(job.get("status"), ("phase", "cluster", "message")),
    }


def project_workload(workload: Obj) -> Obj:
    """Returns the fields of a Workload that decisions read."""
    return {
        "metadata": metadata(workload),
        "spec": pick(workload.get("spec"), ("active", "priority")),
        "status": pick(workload.get("status"), ("conditions", "admission")),
    }


def project_flavor(flavor: Obj) -> Obj:
    """Returns metadata and taints of a ResourceFlavor."""
    spec = pick(flavor.get("spec"), ("nodeTaints",))
    return {"metadata": metadata(flavor), "spec": spec}


def project_queue(queue: Obj) -> Obj:
    """Returns the queue.

    Of its usage only the part above the quota is kept, because the rest changes with every job and no
    decision reads it.
    """
    annotations = pick(queue["metadata"].get("annotations"), (build.RESOURCES_ANNOTATION,))
    return {
        "metadata": {**metadata(queue), "annotations": annotations},
        "spec": pick(queue.get("spec"), ("resourceGroups",)),
        "status": {"flavorsReservation": above_quota(queue)},
    }


def project_node(node: Obj) -> Obj:
    """Returns the fields of a Node that count GPUs, about a hundredth of its size.

    Used by the fleet's watches. The node is another cluster's, whose API server may send anything: what has
    another type counts as absent, so that it hides no other node.
    """
    meta, status = node["metadata"], _object(node.get("status"))
    conditions = status.get("conditions")
    entries = conditions if isinstance(conditions, list) else ()
    ready = [found for found in map(_object, entries) if found.get("type") == "Ready"]
    labels, allocatable = _object(meta.get("labels")), _object(status.get("allocatable"))
    return {
        "metadata": {
            **pick(meta, ("name", "uid", "resourceVersion", "deletionTimestamp")),
            "labels": {k: str(v) for k, v in labels.items() if is_gpu_label(k)},
        },
        "spec": pick(_object(node.get("spec")), ("unschedulable",)),
        "status": {
            "allocatable": {k: str(v) for k, v in allocatable.items() if is_gpu_resource(k)},
            "conditions": [pick(condition, ("type", "status")) for condition in ready],
        },
    }


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
