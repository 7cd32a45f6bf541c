"""The caches of a recorder, filled by a test."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Resource
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.history.recorder.observe import watches
from fournos.history.settings import HistorySettings


class FilledCaches:
    """The caches of the recorder of FournosJobs."""

    def __init__(self) -> None:
        self._stores: dict[Resource, Store] = {
            watch.resource: Store(project=watch.project, indexes=watch.indexes)
            for watch in watches(HistorySettings(), FOURNOS_JOB)
        }
        self.caches = Caches(self._stores)

    def fill(self, resource: Resource, objects: list[Any]) -> None:
        """Stores a list of this type, as its reflector does."""
        store = self._stores[resource]
        versioned = [{**obj, "metadata": {"resourceVersion": "1", **obj["metadata"]}} for obj in objects]
        store.replace([store.slim(obj) for obj in versioned], "1")
