"""A watch-fed cache of one resource type: keyed, indexed, projected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from fournos.engine.kube.resource import Key, Obj, key_of

logger = logging.getLogger(__name__)

IndexFunction: TypeAlias = Callable[[Obj], Iterable[str]]
ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Change(NamedTuple):
    """A change by an event or a new list; `old` is None for ADDED, `new` for DELETED."""

    type: ChangeType
    old: Obj | None
    new: Obj | None


class Store:
    """The cached objects by key, with indexes.

    The reflector writes it.  `assume` stores the response to an own write, so that the next decision reads it
    before its watch event arrives.  An event older than the stored object is ignored.

    A projection must keep `metadata.{namespace,name,uid,resourceVersion}`.  Index functions get projected
    objects.  Both must be pure.
    """

    served: bool
    """False if the API server does not serve the resource type."""
    synced: bool
    """True after the first complete list."""

    def __init__(
        self,
        *,
        project: Callable[[Obj], Obj] | None = None,
        indexes: Mapping[str, IndexFunction] | None = None,
    ) -> None:
        self.served = True
        self.synced = False
        self._project = project
        self._objects: dict[Key, Obj] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._functions}
        self.revision = 0
        """Grows with every change; a value computed from the whole store is valid while it is the same."""
        self._assumed: set[Key] = set()
        """Keys stored by `assume` and not yet in a list or watch event."""
        self._seen = 0
        """The resourceVersion up to which the watch has delivered every event.

        A response that is not newer than it contains nothing new.  Above all, such a response must not bring
        back an object that was deleted since.  For this reason the store needs no tombstones.
        """

    # --- reading -------------------------------------------------------------------------------------

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def by(self, index: str, value: str) -> tuple[Obj, ...]:
        """Returns the objects with this index value; KeyError for an unknown index."""
        objects = self._objects
        return tuple(objects[key] for key in self._indexes[index].get(value, ()))

    def values(self, index: str) -> tuple[str, ...]:
        """Returns the values of an index that have objects; KeyError for an unknown index."""
        return tuple(self._indexes[index])

    def __iter__(self) -> Iterator[Obj]:
        """Iterates over a snapshot, because the store may change during the iteration."""
        return iter(tuple(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    # --- writing -------------------------------------------------------------------------------------

    def assume(self, obj: Obj) -> None:
        """Stores the API server's response to an own write, unless the store has a newer version."""
        key = key_of(obj)
        version = version_of(obj)
        current = self._objects.get(key)
        if version and (version <= self._seen or (current is not None and version <= version_of(current))):
            return
        self._put(key, current, self.slim(obj))
        self._assumed.add(key)

    def observe(self, event: ChangeType, obj: Obj) -> Change | None:
        """Stores a watch event; returns None if the stored version is the same or newer."""
        key = key_of(obj)
        version = version_of(obj)
        self.bookmark(version)
        current = self._objects.get(key)
        stored = version_of(current) if current is not None else 0
        if event == "DELETED":
            if current is None or version < stored:
                return None
            self._drop(key, current)
            return Change("DELETED", current, None)
        if current is None:
            new = self.slim(obj)
            self._put(key, None, new)
            return Change("ADDED", None, new)
        if version and version <= stored:
            if version == stored:
                self._assumed.discard(key)
            return None
        self._assumed.discard(key)
        new = self.slim(obj)
        self._put(key, current, new)
        return Change("MODIFIED", current, new)

    def replace(self, items: Iterable[Obj], resource_version: str) -> list[Change]:
        """Stores a complete list, with items from `slim`; returns all changes.

        A stored object that is not in the list was deleted without an event and gets a DELETED change.  The
        list wins even with lower versions, because etcd may have been restored.  Only responses to own writes
        that are newer than the list are kept.
        """
        listed_at = _number(resource_version)
        changes: list[Change] = []
        gone = dict(self._objects)
        for item in items:
            key = key_of(item)
            gone.pop(key, None)
            current = self._objects.get(key)
            if current is None:
                self._put(key, None, item)
                changes.append(Change("ADDED", None, item))
            elif key in self._assumed and version_of(current) > version_of(item):
                continue
            elif current["metadata"].get("resourceVersion") != item["metadata"].get("resourceVersion"):
                self._put(key, current, item)
                changes.append(Change("MODIFIED", current, item))
            self._assumed.discard(key)
        for key, current in gone.items():
            if key in self._assumed and version_of(current) > listed_at:
                continue
            self._drop(key, current)
            changes.append(Change("DELETED", current, None))
        self._seen = listed_at
        self.synced = True
        return changes

    def forget(self, index: str, value: str) -> None:
        """Removes the objects with this index value, of which no decision will read again.

        The API server still has them: their next event, or the next list, stores them again.
        """
        for obj in self.by(index, value):
            self._drop(key_of(obj), obj)

    def clear(self) -> list[Change]:
        """Removes all objects, because the resource type itself is no longer served; returns the changes."""
        changes = [Change("DELETED", obj, None) for obj in self._objects.values()]
        for obj in tuple(self._objects.values()):
            self._drop(key_of(obj), obj)
        return changes

    def bookmark(self, version: int) -> None:
        """Records that the watch has delivered every event up to this version."""
        self._seen = max(self._seen, version)

    def slim(self, obj: Obj) -> Obj:
        """Returns what the store keeps of an object; `obj` is not changed.

        If the projection fails, the object is kept whole: one malformed object must not stop the cache.
        """
        lean = _without_bookkeeping(obj)
        if self._project is None:
            return lean
        try:
            return self._project(lean)
        except Exception as error:
            logger.error("projection failed, object kept whole: %s: %s", key_of(obj), type(error).__name__)
            return lean

    def _put(self, key: Key, old: Obj | None, new: Obj) -> None:
        self._objects[key] = new
        self.revision += 1
        for name, function in self._functions.items():
            before = _values(name, function, old) if old is not None else frozenset()
            after = _values(name, function, new)
            if before != after:
                self._reindex(name, key, before - after, after - before)

    def _drop(self, key: Key, old: Obj) -> None:
        del self._objects[key]
        self.revision += 1
        self._assumed.discard(key)
        for name, function in self._functions.items():
            self._reindex(name, key, _values(name, function, old), frozenset())

    def _reindex(self, name: str, key: Key, gone: frozenset[str], added: frozenset[str]) -> None:
        index = self._indexes[name]
        for value in gone:
            keys = index[value]
            del keys[key]
            if not keys:
                del index[value]
        for value in added:
            index.setdefault(value, {})[key] = None


def version_of(obj: Obj) -> int:
    """Returns the resourceVersion as a number, 0 if there is none.

    Kubernetes guarantees (KEP-5504) that versions of one resource type compare as integers.  For its built-in
    types and for custom resources this has always been true.
    """
    return _number(obj["metadata"].get("resourceVersion"))


def _number(version: str | None) -> int:
    try:
        return int(version or 0)
    except ValueError:
        return 0


def _values(name: str, function: IndexFunction, obj: Obj) -> frozenset[str]:
    try:
        return frozenset(function(obj))
    except Exception as error:
        logger.error("index %s failed, object not indexed: %s: %s", name, key_of(obj), type(error).__name__)
        return frozenset()


def _without_bookkeeping(obj: Obj) -> Obj:
    """Returns a shallow copy without the parts that use much memory and that no decision reads."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations")
    if "managedFields" not in metadata and not (annotations and LAST_APPLIED in annotations):
        return obj
    lean = {name: value for name, value in metadata.items() if name != "managedFields"}
    if annotations and LAST_APPLIED in annotations:
        lean["annotations"] = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    return {**obj, "metadata": lean}


def same_but_version(old: Obj | None, new: Obj | None) -> bool:
    """True if only the resourceVersion differs, as after a heartbeat; both objects as stored."""
    if old is None or new is None:
        return False
    return _timeless(old) == _timeless(new)


def _timeless(obj: Obj) -> dict[str, object]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}
