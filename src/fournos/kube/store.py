"""A watch-fed cache of one resource type: keyed, indexed, projected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from fournos.kube.resource import Key, Obj, key_of

logger = logging.getLogger(__name__)

IndexFunction: TypeAlias = Callable[[Obj], Iterable[str]]
ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Change(NamedTuple):
    """What an event or a new list changed; `old` is None for ADDED, `new` for DELETED."""

    type: ChangeType
    old: Obj | None
    new: Obj | None


class Store:
    """Objects by key, with indexes.

    The reflector writes it; `assume` puts the answer to an own write into it, so that the next decision
    sees it before its watch event arrives.  An event older than what is stored is ignored.

    A projection must keep `metadata.{namespace,name,uid,resourceVersion}`.  Index functions see projected
    objects.  Both must be pure.
    """

    served: bool
    """False once the API server said that it does not know the resource type."""
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
        """Grows with every change: what was computed from the whole store is valid while it stays."""
        self._assumed: set[Key] = set()
        """Stored by `assume`, not seen in a list or watch yet."""
        self._seen = 0
        """The watch has delivered everything up to this resourceVersion.

        So an answer that is not newer cannot tell anything new; above all it cannot bring back an object
        that was deleted since.  This makes tombstones needless.
        """

    # --- reading -------------------------------------------------------------------------------------

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def by(self, index: str, value: str) -> tuple[Obj, ...]:
        """The objects that an index function gave this value for; KeyError for an unknown index."""
        objects = self._objects
        return tuple(objects[key] for key in self._indexes[index].get(value, ()))

    def __iter__(self) -> Iterator[Obj]:
        """Over a snapshot: the store may change meanwhile."""
        return iter(tuple(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    # --- writing -------------------------------------------------------------------------------------

    def assume(self, obj: Obj) -> None:
        """Take the API server's answer to a write of ours, unless something newer is here already."""
        key = key_of(obj)
        version = version_of(obj)
        current = self._objects.get(key)
        if version and (version <= self._seen or (current is not None and version <= version_of(current))):
            return
        self._put(key, current, self.slim(obj))
        self._assumed.add(key)

    def observe(self, event: ChangeType, obj: Obj) -> Change | None:
        """Take a watch event; None: it is older than, or the echo of, what is stored."""
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
        """Take a complete list, its items as `slim` made them.

        What is stored but not listed was deleted unseen: it gets a DELETED change of its own.  The list
        wins even with lower versions (etcd was restored); only answers to writes of ours that are newer
        than the list stay.
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

    def clear(self) -> list[Change]:
        """The resource type itself is gone, and all its objects with it."""
        changes = [Change("DELETED", obj, None) for obj in self._objects.values()]
        for obj in tuple(self._objects.values()):
            self._drop(key_of(obj), obj)
        return changes

    def bookmark(self, version: int) -> None:
        """The watch has delivered everything up to this version."""
        self._seen = max(self._seen, version)

    def slim(self, obj: Obj) -> Obj:
        """What the store keeps of an object; the given one is not changed.

        An object that the projection cannot read is kept whole: it must not blind us for the others.
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
    """The resourceVersion as a number, 0 if it has none.

    Kubernetes promises (KEP-5504) that versions of one resource type compare as integers; its built-in
    types and custom resources have always kept that.
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
    """A shallow copy without what no decision reads but much memory holds."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations")
    if "managedFields" not in metadata and not (annotations and LAST_APPLIED in annotations):
        return obj
    lean = {name: value for name, value in metadata.items() if name != "managedFields"}
    if annotations and LAST_APPLIED in annotations:
        lean["annotations"] = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    return {**obj, "metadata": lean}


def same_but_version(old: Obj | None, new: Obj | None) -> bool:
    """Whether a change left all that the store keeps as it was, such as a heartbeat; both as stored."""
    if old is None or new is None:
        return False
    return _timeless(old) == _timeless(new)


def _timeless(obj: Obj) -> dict[str, object]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}
