"""What a system gives to the runtime: which objects it watches, and how it observes and decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from fournos.kube.api import Api
from fournos.kube.resource import Key, Obj, Resource, is_terminating, key_of
from fournos.kube.store import Store
from fournos.runtime.decision import Decide
from fournos.runtime.selector import matcher
from fournos.runtime.steps import Custom

IndexFunction = Callable[[Obj], Iterable[str]]
Executor = Callable[[Any, Api], Awaitable[None]]
"""Carries out one type of `Custom` step; raises the errors of `fournos.kube.errors`."""


@dataclass(frozen=True, slots=True)
class Watch:
    """One watch-fed cache.

    `project` keeps of an object what decisions read (measured: a PipelineRun shrinks from 20 kB to 2); a
    change that it hides, all but the resourceVersion in the metadata, wakes nobody;
    `indexes` make objects findable by owner UID, label and the like; `wakes` names the keys of the
    primary kind that an event about this object concerns.
    """

    resource: Resource
    wakes: Callable[[Obj, Caches], Iterable[Key]]
    namespace: str = ""
    selector: str = ""
    project: Callable[[Obj], Obj] | None = None
    indexes: Mapping[str, IndexFunction] = field(default_factory=dict)
    required: bool = True
    """False: the resource type may be missing (its CRD is not installed); its cache then is empty."""

    def covers(self, obj: Obj) -> bool:
        """Whether the watch would deliver this object of its resource type."""
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        return matcher(self.selector)(meta.get("labels") or {})


class Caches:
    """The stores of one API server by resource type."""

    def __init__(
        self,
        stores: Mapping[Resource, Store],
        *,
        covers: Mapping[Resource, Callable[[Obj], bool]] | None = None,
        told: Callable[[Resource, Obj | None, Obj], None] | None = None,
    ) -> None:
        """`covers` says which objects a store's watch delivers; without it, all.

        `told(resource, old, new)` hears of own writes, whose watch events are echoes that wake nobody.
        """
        self._stores = dict(stores)
        self._covers = dict(covers or {})
        self._told = told

    def __getitem__(self, resource: Resource) -> Store:
        return self._stores[resource]

    def __contains__(self, resource: Resource) -> bool:
        return resource in self._stores

    def open(self, watch: Watch, store: Store) -> None:
        """One more, which a watch that is followed fills (`Controller.follow`)."""
        self._stores[watch.resource] = store
        self._covers[watch.resource] = watch.covers

    def close(self, resource: Resource) -> None:
        """Nothing fills it any more."""
        del self._stores[resource]
        del self._covers[resource]

    def assume(self, resource: Resource, obj: Obj) -> bool:
        """Put the answer to an own write where the next decision sees it; True if that was news.

        Nothing of an object that no watch delivers, nor of one whose deletion this write has completed:
        no event would ever take it out again.
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
        if self._told is not None:
            self._told(resource, before, now)
        return True

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """The watched resource type of an ownerReference, whatever its version."""
        group = api_version.rpartition("/")[0]
        for resource in self._stores:
            if resource.kind == kind and resource.group == group:
                return resource
        return None

    def served(self, resource: Resource) -> bool:
        """Whether the API server serves this type at all, as far as its watch knows."""
        return self._stores[resource].served


def _version(obj: Obj | None) -> str | None:
    return obj["metadata"].get("resourceVersion") if obj is not None else None


Observed = TypeVar("Observed")


@dataclass(frozen=True, slots=True)
class Controller(Generic[Observed]):
    """A controller as data.  The first watch is that of the primary kind."""

    name: str
    watches: tuple[Watch, ...]
    observe: Callable[[Caches, Key], Observed | None]
    """None: there is nothing to decide (the object is gone)."""
    decide: Decide[Observed]
    primary: Callable[[Observed], Obj]
    """The observed object: its status is written, events are about it."""
    collect: Callable[[Caches], Iterable[Key]] | None = None
    """Keys for the periodic garbage collection; None: the system has none."""
    executors: Mapping[type[Custom], Executor] = field(default_factory=dict)
    """Who carries out the steps that only this system knows."""
    follow: Callable[[Obj], Iterable[Watch]] | None = None
    """What one object of the primary kind needs to have watched beyond `watches`, such as a kind that only it
    names.  A watch is opened with the first object that needs it, and ends with the last.  Nothing waits for
    it: the cache may be missing or not synced, when its CRD is missing or the right to it for as long as that
    lasts.  Objects that need it are woken when its cache is complete."""

    written: Callable[[Obj, Obj], None] | None = None
    """Hears of each status write: the object as it was observed, and as it is now; for metrics."""
    published_name: str = ""
    """The name of this controller in a published operator, for the metrics under its names; else `name`."""

    def __post_init__(self) -> None:
        """Raises ValueError where a resource type is watched twice."""
        if len({watch.resource for watch in self.watches}) != len(self.watches):
            raise ValueError(f"{self.name} watches a resource type twice")

    @property
    def resource(self) -> Resource:
        return self.watches[0].resource
