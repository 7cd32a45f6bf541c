"""The description of a controller for the runtime: its watches, and how it observes and decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key, Obj, Resource, is_terminating, key_of
from fournos.engine.kube.store import Store
from fournos.engine.runtime.decision import Decide
from fournos.engine.runtime.selector import matcher
from fournos.engine.runtime.steps import Custom

IndexFunction = Callable[[Obj], Iterable[str]]
Executor = Callable[[Any, Api], Awaitable[None]]
"""Executes one type of `Custom` step; raises the errors of `fournos.engine.kube.errors`."""


@dataclass(frozen=True, slots=True)
class Watch:
    """One watch and the cache that it fills.

    `project` reduces an object to the fields that decisions read (measured: a PipelineRun shrinks from 20 kB
    to 2).  A change outside the projection triggers no reconcile, even though the resourceVersion changes.
    `indexes` make objects findable by owner UID, label and the like.  `wakes` returns the keys of the
    primary kind to enqueue on an event about this object.
    """

    resource: Resource
    wakes: Callable[[Obj, Caches], Iterable[Key]]
    namespace: str = ""
    selector: str = ""
    project: Callable[[Obj], Obj] | None = None
    indexes: Mapping[str, IndexFunction] = field(default_factory=dict)
    required: bool = True
    """False: the resource type may be missing (its CRD is not installed); then the cache is empty."""

    def covers(self, obj: Obj) -> bool:
        """True if the watch delivers this object of its resource type."""
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        return matcher(self.selector)(meta.get("labels") or {})


class Caches:
    """The stores of one controller on one API server, by resource type."""

    def __init__(
        self,
        stores: Mapping[Resource, Store],
        *,
        covers: Mapping[Resource, Callable[[Obj], bool]] | None = None,
        on_write: Callable[[Resource, Obj | None, Obj], None] | None = None,
    ) -> None:
        """`covers`: by resource type, whether the watch of the store delivers an object; without it, all.

        `on_write(resource, old, new)` is called with each own write that changed a store.  The watch event of
        such a write is ignored later, because the store has that version already.
        """
        self._stores = dict(stores)
        self._covers = dict(covers or {})
        self._on_write = on_write

    def __getitem__(self, resource: Resource) -> Store:
        return self._stores[resource]

    def __contains__(self, resource: Resource) -> bool:
        return resource in self._stores

    def open(self, watch: Watch, store: Store) -> None:
        """Adds the store of a dynamic watch (`Controller.follow`)."""
        self._stores[watch.resource] = store
        self._covers[watch.resource] = watch.covers

    def close(self, resource: Resource) -> None:
        """Removes the store of a resource type whose dynamic watch has ended."""
        del self._stores[resource]
        del self._covers[resource]

    def assume(self, resource: Resource, obj: Obj) -> bool:
        """Puts the response to an own write into the cache; returns True if the cache changed.

        The next decision thus sees the write before its watch event arrives.  Two kinds of objects are left
        out, because no event would ever remove them: those that no watch delivers, and those whose deletion
        this write has completed.
        """
        store = self._stores.get(resource)
        if store is None or (is_terminating(obj) and not obj["metadata"].get("finalizers")):
            return False
        covers = self._covers.get(resource)
        if covers is not None and not covers(obj):
            return False
        before = store.get(key_of(obj))
        store.assume(obj)
        now = store.get(key_of(obj))
        if now is None or _version(now) == _version(before):
            return False
        if self._on_write is not None:
            self._on_write(resource, before, now)
        return True

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """Returns the watched resource type of an ownerReference; the version is ignored."""
        group = api_version.rpartition("/")[0]
        for resource in self._stores:
            if resource.kind == kind and resource.group == group:
                return resource
        return None

    def served(self, resource: Resource) -> bool:
        """True if the API server serves this resource type, as far as its watch has found out."""
        return self._stores[resource].served


def _version(obj: Obj | None) -> str | None:
    return obj["metadata"].get("resourceVersion") if obj is not None else None


Observed = TypeVar("Observed")


@dataclass(frozen=True, slots=True)
class Controller(Generic[Observed]):
    """A controller as data.  The first watch is the watch of the primary kind."""

    name: str
    watches: tuple[Watch, ...]
    observe: Callable[[Caches, Key], Observed | None]
    """Returns the observed state of a key; None if there is nothing to decide (the object is gone)."""
    decide: Decide[Observed]
    primary: Callable[[Observed], Obj]
    """Returns the primary object of the observed state: its status is written and events are about it."""
    collect: Callable[[Caches], Iterable[Key]] | None = None
    """Returns the keys to enqueue at the periodic garbage collection; None if the controller has none."""
    executors: Mapping[type[Custom], Executor] = field(default_factory=dict)
    """The executors of the `Custom` steps of this controller, by step type."""
    follow: Callable[[Obj], Iterable[Watch]] | None = None
    """Returns the dynamic watches of one object of the primary kind, in addition to `watches`.

    An example is the watch of a kind that only this object names.  A watch is opened with the first object
    that needs it and closed with the last.  The startup does not wait for it: the cache may be missing or
    not synced as long as its CRD is missing or the operator may not list it.  The objects that need the
    cache are enqueued when it is complete.
    """

    written: Callable[[Obj, Obj], None] | None = None
    """Called after each status write with the object as observed and as written; for metrics."""
    owns_status: Callable[[Obj], bool] = lambda primary: False
    """True if the status of this primary object is ours, so that a refusal that repeats is the condition
    Retrying in it; otherwise it is an Event only."""
    published_name: str = ""
    """The name of this controller in a published operator, for its metrics; default: `name`."""

    def __post_init__(self) -> None:
        """Raises ValueError if a resource type is watched twice."""
        if len({watch.resource for watch in self.watches}) != len(self.watches):
            raise ValueError(f"{self.name} watches a resource type twice")

    @property
    def resource(self) -> Resource:
        return self.watches[0].resource
