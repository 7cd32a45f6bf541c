"""The FournosClusters that an event concerns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import Key, Obj, controller_of, key_of
from fournos.engine.runtime.controller import Caches
from fournos.systems.clusters import names
from fournos.systems.clusters.quota_holders import flavors_held, is_of_job

BY_KUBECONFIG: Final = "kubeconfig"
"""The index of FournosClusters by the name of their kubeconfig Secret."""


def secret_of(cluster: Obj) -> Iterable[str]:
    """Returns the index values of BY_KUBECONFIG."""
    return (str((cluster.get("spec") or {}).get("kubeconfigSecret") or ""),)


def every_cluster(obj: Obj, caches: Caches) -> Iterable[Key]:
    return tuple(key_of(cluster) for cluster in caches[FOURNOS_CLUSTER])


def of_secret(secret: Obj, caches: Caches) -> Iterable[Key]:
    name = secret["metadata"]["name"]
    return tuple(key_of(cluster) for cluster in caches[FOURNOS_CLUSTER].by(BY_KUBECONFIG, name))


@dataclass(frozen=True, slots=True)
class Wakes:
    """Maps objects that name a cluster to its key in the namespace of the FournosClusters."""

    namespace: str

    def of_job(self, job: Obj, caches: Caches) -> Iterable[Key]:
        """Returns the cluster that a FournosJob asks for, the one it has, and the one it locks."""
        lock = (job["metadata"].get("labels") or {}).get(names.LOCK_LABEL)
        named = (job["spec"].get("cluster"), job["status"].get("cluster"), lock)
        return tuple(self._key(str(name)) for name in dict.fromkeys(named) if name)

    def of_workload(self, workload: Obj, caches: Caches) -> Iterable[Key]:
        """Returns the cluster that a lock's Workload locks, or the clusters whose quota another one holds."""
        if not is_of_job(workload):
            return tuple(self._key(name) for name in flavors_held(workload))
        owner = str((controller_of(workload) or {}).get("name") or "")
        locked = owner.startswith(names.LOCK_PREFIX)
        return (self._key(owner.removeprefix(names.LOCK_PREFIX)),) if locked else ()

    def of_flavor(self, flavor: Obj, caches: Caches) -> Iterable[Key]:
        return (self._key(flavor["metadata"]["name"]),)

    def _key(self, name: str) -> Key:
        return Key(self.namespace, name)
