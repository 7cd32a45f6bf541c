"""The description of a controller for the runtime: its watches, and how it observes and decides."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key, Obj, Resource, controller_of, is_terminating, key_of
from fournos.engine.kube.store import Store
from fournos.engine.runtime.decision import Custom, Decide

log = logging.getLogger(__name__)

# --- label selectors --------------------------------------------------------------------------------
# Label selectors in the syntax of the API server: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

_TERM = re.compile(
    r"\s*+(?:(?P<absent>!)\s*+)?(?P<key>[^\s=!,()]++)\s*+"
    r"(?:(?P<op>==|=|!=)\s*+(?P<value>[^\s,()]*+)|(?P<set>in|notin)\s*+\((?P<values>[^)]*+)\))?\s*+(?:,|$)"
)

Matcher = Callable[[Mapping[str, str]], bool]


@lru_cache(maxsize=256)
def matcher(selector: str) -> Matcher:
    """Returns a test of labels; the empty selector matches all.  ValueError: the selector is invalid."""
    terms: list[Matcher] = []
    position = 0
    while position < len(selector):
        match = _TERM.match(selector, position)
        if match is None:
            raise ValueError(f"not a label selector: {selector!r}")
        terms.append(_term(match))
        position = match.end()
    return lambda labels: all(term(labels) for term in terms)


def _term(match: re.Match[str]) -> Matcher:
    key, value = match["key"], match["value"]
    values = frozenset(part.strip() for part in (match["values"] or "").split(","))
    if match["absent"]:
        return lambda labels: key not in labels
    if match["op"] == "!=":
        return lambda labels: labels.get(key) != value
    if match["op"]:
        return lambda labels: labels.get(key) == value
    if match["set"] == "in":
        return lambda labels: labels.get(key) in values
    if match["set"] == "notin":
        return lambda labels: labels.get(key) not in values
    return lambda labels: key in labels


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


# --- projections ------------------------------------------------------------------------------------
# Projections, indexes and key functions for watches that several operators share.

METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
)


def pick(obj: Mapping[str, Any] | None, fields: Iterable[str]) -> dict[str, Any]:
    """Returns these fields as far as they are present."""
    found = obj or {}
    return {name: found[name] for name in fields if name in found}


def metadata(obj: Obj, *more: str) -> dict[str, Any]:
    """Returns the metadata that every projection keeps, and the fields `more`."""
    return pick(obj["metadata"], (*METADATA, *more))


def project_metadata(obj: Obj) -> Obj:
    """A projection that keeps only metadata."""
    return {"metadata": metadata(obj)}


def controller_uid(obj: Obj) -> Iterable[str]:
    """An index function: the UID of the object's controller."""
    owner = controller_of(obj)
    return (str(owner["uid"]),) if owner else ()


R = TypeVar("R")
_logged: set[tuple[str, str, str]] = set()
"""What, object and version of which a failure was logged: a loop comes to the same object again and again."""
_MOST_LOGGED: Final = 10_000
"""Beyond it all are forgotten, so that the memory is bounded; each may be logged once more."""


def of_each(objects: Iterable[Obj], read: Callable[[Obj], R], what: str) -> Iterator[R]:
    """Yields what `read` returns for each object; one for which it raises is logged and left out.

    For every loop over objects of many owners: one that is malformed must not keep it from the others.
    `what` the loop does begins the log line, which comes once for each version of an object.
    """
    for obj in objects:
        try:
            result = read(obj)
        except Exception as error:
            meta = obj.get("metadata") or {}
            version = (what, str(meta.get("uid")), str(meta.get("resourceVersion")))
            if version not in _logged:
                if len(_logged) >= _MOST_LOGGED:
                    _logged.clear()
                _logged.add(version)
                about = f"{meta.get('namespace') or ''}/{meta.get('name')}"
                log.warning("%s: %s is left out: %s: %s", what, about, type(error).__name__, error)
            continue
        yield result


def own_key(obj: Obj, caches: Caches) -> Iterable[Key]:
    """Returns the object's own key; for the watch of the primary kind."""
    return (key_of(obj),)


def of_label(obj: Obj, label: str) -> tuple[Key, ...]:
    """Returns the key of the object that this label names, in the same namespace."""
    name = (obj["metadata"].get("labels") or {}).get(label)
    return (Key(obj["metadata"]["namespace"], name),) if name else ()


def of_owners(obj: Obj, resource: Resource) -> tuple[Key, ...]:
    """Returns the keys of the object's owners of this type, by name, even if an owner is gone."""
    return tuple(
        Key(obj["metadata"]["namespace"], one["name"])
        for one in obj["metadata"].get("ownerReferences") or ()
        if one.get("kind") == resource.kind and one.get("apiVersion") == resource.api_version
    )


def indexed(keys: Callable[[Obj], Iterable[Key]]) -> IndexFunction:
    """Returns an index function over the keys that an object leads to."""
    return lambda obj: tuple(str(key) for key in keys(obj))


def waking(keys: Callable[[Obj], Iterable[Key]]) -> Callable[[Obj, Caches], Iterable[Key]]:
    """Returns a `wakes` function that enqueues the keys that an object leads to."""
    return lambda obj, caches: keys(obj)


def waking_all(resource: Resource) -> Callable[[Obj, Caches], Iterable[Key]]:
    """Returns a `wakes` function that enqueues every cached object of this type."""
    return lambda obj, caches: tuple(map(key_of, caches[resource]))


def waking_by(resource: Resource, index: str) -> Callable[[Obj, Caches], Iterable[Key]]:
    """Returns a `wakes` function that enqueues the objects of this type that an index finds by name."""
    return lambda obj, caches: tuple(map(key_of, caches[resource].by(index, obj["metadata"]["name"])))


def no_keys(obj: Obj, caches: Caches) -> Iterable[Key]:
    """Returns no key; for objects that are only looked up."""
    return ()


# --- watches that come and go -----------------------------------------------------------------------
# Dynamic watches: of resource types that only objects name, open as long as an object needs them.


class Followed:
    """The dynamic watches of one controller, counted by the primary objects that need them."""

    def __init__(
        self, controller: Controller[Any], open_: Callable[[Watch], None], close: Callable[[Resource], None]
    ) -> None:
        self._controller = controller
        self._own = frozenset(watch.resource for watch in controller.watches)
        self._open = open_
        self._close = close
        self._needed: dict[Resource, dict[Key, None]] = {}

    def changed(self, new: Obj | None, old: Obj | None = None) -> None:
        """Opens and closes watches for a primary object; `new` None: it is gone, and was `old`."""
        if self._controller.follow is None:
            return
        obj = new if new is not None else old
        if obj is None:
            return
        key = key_of(obj)
        watches = self._wanted(new) if new is not None else {}
        for resource in [one for one, keys in self._needed.items() if key in keys and one not in watches]:
            del self._needed[resource][key]
            if not self._needed[resource]:
                del self._needed[resource]
                self._close(resource)
        for resource, watch in watches.items():
            first = resource not in self._needed
            self._needed.setdefault(resource, {})[key] = None
            if first:
                self._open(watch)

    def keys(self, resource: Resource) -> tuple[Key, ...]:
        """Returns the primary objects that need the watch of this resource type."""
        return tuple(self._needed.get(resource, ()))

    def _wanted(self, obj: Obj) -> dict[Resource, Watch]:
        assert self._controller.follow is not None
        try:
            watches = tuple(self._controller.follow(obj))
        except Exception:  # a malformed object must not end the watch that delivers it
            log.exception(
                "%s: what it needs to have watched is unknown",
                self._controller.name,
                extra={"key": key_of(obj)},
            )
            return {}
        return {watch.resource: watch for watch in watches if watch.resource not in self._own}
