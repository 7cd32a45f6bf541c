"""Reads an AdmissionCheck of this adapter and the workers that its MultiKueueConfig lists."""

from __future__ import annotations

from dataclasses import dataclass

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kind_names import name_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK
from fournos.engine.runtime.controller import Caches, Watch
from fournos.engine.runtime.projection import own_key, pick, waking_all, waking_by
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.systems.multikueue.observe import CONFIG, clusters_of, config_of
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of the check's MultiKueueConfig."""

    name: str
    exists: bool
    """True if a MultiKueueCluster of this name exists."""
    probed: bool
    unusable_reason: str
    missing: tuple[str, ...] = ()
    """Kinds that cannot be dispatched to the worker."""


@dataclass(frozen=True, slots=True)
class Observed:
    """An AdmissionCheck of this adapter, and its workers."""

    check: Obj
    problem: str
    """Why the check's parameters give no workers, or ""."""
    workers: tuple[Worker, ...] = ()


def observe(
    caches: Caches, key: Key, *, settings: MultiKueueSettings, workers: RemoteClients
) -> Observed | None:
    """Returns the check with the state of its workers; None for a check of another controller."""
    check = caches[ADMISSION_CHECK].get(key)
    if check is None or check["spec"].get("controllerName") != settings.controller_name:
        return None
    config_name = next(iter(config_of(check)), "")
    if not config_name:
        return Observed(check, "spec.parameters must name a MultiKueueConfig (kind and name)")
    config = caches[MULTIKUEUE_CONFIG].get(Key("", config_name))
    if config is None:
        return Observed(check, f"there is no MultiKueueConfig {config_name}")
    found = tuple(_worker(caches, name, settings, workers) for name in clusters_of(config))
    return Observed(check, "", found)


def _worker(caches: Caches, name: str, settings: MultiKueueSettings, workers: RemoteClients) -> Worker:
    return Worker(
        name,
        exists=caches[MULTIKUEUE_CLUSTER].get(Key("", name)) is not None,
        probed=workers.probed(name),
        unusable_reason=workers.unusable_reason(name),
        missing=tuple(name_of(kind) for kind in settings.kinds if workers.unusable_reason(name, kind)),
    )


def watches() -> tuple[Watch, ...]:
    """Returns the watches of this controller.

    Their projections differ from those of the Workload controller, so the two share no cache.  Conditions
    written here reach the Workload controller by its own watch.
    """
    return (
        Watch(ADMISSION_CHECK, wakes=own_key, project=_project, indexes={CONFIG: config_of}),
        Watch(MULTIKUEUE_CONFIG, wakes=waking_by(ADMISSION_CHECK, CONFIG)),
        Watch(MULTIKUEUE_CLUSTER, wakes=waking_all(ADMISSION_CHECK), project=_project_cluster),
    )


def _project(check: Obj) -> Obj:
    return {
        "metadata": pick(
            check["metadata"], ("name", "uid", "resourceVersion", "generation", "deletionTimestamp")
        ),
        "spec": check["spec"],
        "status": pick(check.get("status"), ("conditions",)),
    }


def _project_cluster(cluster: Obj) -> Obj:
    """Keeps only the metadata: existence matters, and Kueue owns the status."""
    return {"metadata": pick(cluster["metadata"], ("name", "uid", "resourceVersion", "deletionTimestamp"))}
