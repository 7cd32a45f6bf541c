"""The recorded objects that exist now, as the caches of the recorder show them."""

from __future__ import annotations

from collections.abc import Iterable

from fournos.engine.kube.resource import Key, Obj, Resource, uid_of
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.manager import Manager
from fournos.history.recorder.controller import name_of
from fournos.history.recorder.observe import cluster_uid
from fournos.history.records import Run


class Shown:
    """Finds the object of a run; nothing before `started` was called with the manager of the recorder."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._resources = {one.kind: one for one in resources}
        self._caches: dict[str, Caches] = {}

    def started(self, manager: Manager) -> None:
        self._caches = {kind: manager.caches(name_of(one)) for kind, one in self._resources.items()}

    def cluster(self) -> str:
        """Returns the UID of the cluster; "" while it is not known."""
        return next((cluster_uid(caches) for caches in self._caches.values()), "")

    def find(self, run: Run) -> tuple[Resource, Obj] | None:
        """Returns the object of a run; None if it does not exist any more."""
        resource = self._resources.get(run.kind)
        if resource is None or run.kind not in self._caches:
            return None
        found = self._caches[run.kind][resource].get(Key(run.identity.namespace, run.name))
        return (resource, found) if found is not None and uid_of(found) == run.identity.uid else None
