"""Reads a MultiKueueCluster, its kubeconfig Secret without data, and the state of its connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fournos.engine.kube.resource import SECRET, Key, Obj
from fournos.engine.queueing.kinds import ADMISSION_CHECK
from fournos.engine.runtime.controller import Caches, Watch
from fournos.engine.runtime.projection import own_key, pick, waking_all, waking_by
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.systems.multikueue.kubeconfig import project_secret
from fournos.systems.multikueue.observe import clusters_of, config_of
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings

_SECRET = "secret"  # noqa: S105 - the name of an index


@dataclass(frozen=True, slots=True)
class Observed:
    """A MultiKueueCluster and the state of its connection."""

    name: str
    cluster: Obj | None
    is_listed: bool
    """True if a check of this adapter lists the cluster."""
    secret: Obj | None
    connected: str | None
    """The version of the kubeconfig in use, or None."""
    refused: str | None
    """The version of the kubeconfig that cannot be used, or None."""

    @property
    def has_connection_state(self) -> bool:
        return self.connected is not None or self.refused is not None


def observe(
    caches: Caches, key: Key, *, settings: MultiKueueSettings, workers: RemoteClients
) -> Observed | None:
    """Returns the MultiKueueCluster; None if it neither exists nor has a connection."""
    cluster = caches[MULTIKUEUE_CLUSTER].get(key)
    location = next(iter(_location(cluster)), "") if cluster is not None else ""
    observed = Observed(
        key.name,
        cluster,
        is_listed=any(key.name in _clusters(caches, check, settings) for check in caches[ADMISSION_CHECK]),
        secret=caches[SECRET].get(Key(settings.kueue_namespace, location)) if location else None,
        connected=workers.version_of(key.name),
        refused=workers.refused(key.name),
    )
    return observed if cluster is not None or observed.has_connection_state else None


def _clusters(caches: Caches, check: Obj, settings: MultiKueueSettings) -> tuple[str, ...]:
    if check["spec"].get("controllerName") != settings.controller_name:
        return ()
    config = next((caches[MULTIKUEUE_CONFIG].get(Key("", one)) for one in config_of(check)), None)
    return clusters_of(config)


def watches(settings: MultiKueueSettings) -> tuple[Watch, ...]:
    return (
        Watch(MULTIKUEUE_CLUSTER, wakes=own_key, project=_project_cluster, indexes={_SECRET: _location}),
        Watch(
            SECRET,
            namespace=settings.kueue_namespace,
            wakes=waking_by(MULTIKUEUE_CLUSTER, _SECRET),
            project=project_secret,
        ),
        Watch(ADMISSION_CHECK, wakes=waking_all(MULTIKUEUE_CLUSTER), project=_project_check),
        Watch(MULTIKUEUE_CONFIG, wakes=waking_all(MULTIKUEUE_CLUSTER)),
    )


def _location(cluster: Obj) -> Iterable[str]:
    found = ((cluster["spec"].get("clusterSource") or {}).get("kubeConfig") or {}).get("location")
    return (str(found),) if found else ()


def _project_cluster(cluster: Obj) -> Obj:
    meta = pick(cluster["metadata"], ("name", "uid", "resourceVersion", "deletionTimestamp"))
    return {"metadata": meta, "spec": cluster["spec"]}


def _project_check(check: Obj) -> Obj:
    return {"metadata": pick(check["metadata"], ("name", "uid", "resourceVersion")), "spec": check["spec"]}
