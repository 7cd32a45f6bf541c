"""Turns the caches into the input of a decision: watches, projections and indexes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from fournos.api.kinds import MINICLUSTER
from fournos.api.minicluster import DEFAULT_HEADLESS_NAME
from fournos.engine.kube.resource import CONFIG_MAP, JOB, POD, SECRET, SERVICE, Key, Obj, Resource, key_of
from fournos.engine.queueing.observe import queue_inputs, queue_watches
from fournos.engine.runtime.controller import (
    Caches,
    Watch,
    indexed,
    metadata,
    of_label,
    of_owners,
    own_key,
    project_metadata,
    waking,
)
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.status import Observed

OF = "minicluster"
DIGEST = "digest"
KEYS = "keys"
QUORUM = "quorum"
"""The keys of a projected ConfigMap that replace its data."""


_labelled = partial(of_label, label=names.MINICLUSTER_LABEL)
_owners = partial(of_owners, resource=MINICLUSTER)
"""Workloads of an earlier MiniCluster with the same name count too, because they must be deleted."""


def watches() -> tuple[Watch, ...]:
    """Returns the watches of all namespaces. Other kinds are limited to objects with our label.

    Services are watched without a selector: the headless Service belongs to several MiniClusters and has a
    different label from the sidecars' Services.
    """
    return (
        Watch(MINICLUSTER, wakes=own_key),
        *(
            Watch(
                resource,
                selector=names.MINICLUSTER_LABEL,
                wakes=waking(_labelled),
                indexes={OF: indexed(_labelled)},
                project=project,
            )
            for resource, project in _MADE.items()
        ),
        Watch(SERVICE, wakes=_of_service, indexes={OF: indexed(_labelled)}, project=project_service),
        *queue_watches(wakes=waking(_owners), owners=indexed(_owners)),
    )


def observe(caches: Caches, key: Key) -> Observed | None:
    """Collects the input of a decision for one MiniCluster; None if it does not exist."""
    minicluster = caches[MINICLUSTER].get(key)
    if minicluster is None:
        return None
    made: dict[tuple[Resource, str], Obj] = {}
    for resource in (JOB, CONFIG_MAP, SECRET, SERVICE):
        for obj in caches[resource].by(OF, str(key)):
            made[resource, obj["metadata"]["name"]] = obj
    headless = caches[SERVICE].get(Key(key.namespace, headless_name(minicluster)))
    if headless is not None:
        made[SERVICE, headless["metadata"]["name"]] = headless
    pods = caches[POD].by(OF, str(key))
    for pod in pods:
        if pod["metadata"]["name"] == names.services_pod(key.name):
            made[POD, pod["metadata"]["name"]] = pod
    return Observed(key, minicluster, made, pods, queue_inputs(caches, minicluster, str(key)))


def headless_name(minicluster: Obj) -> str:
    """Returns the name of the MiniCluster's headless Service."""
    network = (minicluster.get("spec") or {}).get("network") or {}
    return str(network.get("headlessName") or DEFAULT_HEADLESS_NAME)


# --- indexes -----------------------------------------------------------------------------------------


def _of_service(service: Obj, caches: Caches) -> Iterable[Key]:
    """Enqueues the MiniClusters of a Service.

    A headless Service that was deleted enqueues all its owners. While it exists it enqueues none, because
    each owner adds itself in its own pass.
    """
    if named := _labelled(service):
        return named
    return _owners(service) if caches[SERVICE].get(key_of(service)) is None else ()


# --- projections: only the fields that decisions read -----------------------------------------------


def digest(data: Mapping[str, str]) -> str:
    """Returns the SHA-256 of a ConfigMap's data, so that the cache need not hold the scripts."""
    text = "\0".join(f"{key}\0{data[key]}" for key in sorted(data))
    return hashlib.sha256(text.encode()).hexdigest()


def project_config_map(obj: Obj) -> Obj:
    """Returns the ConfigMap with digest, keys and quorum in place of its data."""
    data = obj.get("data") or {}
    found = {"metadata": metadata(obj), DIGEST: digest(data), KEYS: sorted(data)}
    return found | ({QUORUM: data[names.QUORUM_KEY]} if names.QUORUM_KEY in data else {})


def project_service(obj: Obj) -> Obj:
    """Returns metadata and selector of a Service."""
    return {"metadata": metadata(obj), "spec": {"selector": (obj.get("spec") or {}).get("selector")}}


ELASTIC_ANNOTATION = "kueue.x-k8s.io/elastic-job"
"""Set on a Job whose size Kueue allows to change while it runs."""
_OF_JOB = ("parallelism", "completions", "suspend", "activeDeadlineSeconds")
_OF_JOB_STATUS = ("conditions", "completedIndexes", "failedIndexes")


def project_job(job: Obj) -> Obj:
    """Returns the fields of a Job that decisions read."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    meta = metadata(job)
    elastic = (job["metadata"].get("annotations") or {}).get(ELASTIC_ANNOTATION)
    if elastic is not None:
        meta["annotations"] = {ELASTIC_ANNOTATION: elastic}
    return {
        "metadata": meta,
        "spec": {name: spec[name] for name in _OF_JOB if name in spec},
        "status": {name: status[name] for name in _OF_JOB_STATUS if status.get(name)},
    }


def project_pod(pod: Obj) -> Obj:
    """Returns the fields of a pod that decisions read."""
    status = pod.get("status") or {}
    conditions = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") in ("Ready", "PodScheduled")
    ]
    return {
        "metadata": metadata(pod),
        "status": {
            "phase": status.get("phase"),
            "conditions": [
                {key: condition[key] for key in ("type", "status", "reason", "message") if key in condition}
                for condition in conditions
            ],
            "containerStatuses": [
                _container(container) for container in status.get("containerStatuses") or ()
            ],
            "initContainerStatuses": [
                _container(container) for container in status.get("initContainerStatuses") or ()
            ],
        },
    }


def _container(status: Obj) -> dict[str, Any]:
    return {key: status[key] for key in ("name", "state", "lastState", "ready") if key in status}


_MADE = {POD: project_pod, JOB: project_job, CONFIG_MAP: project_config_map, SECRET: project_metadata}
