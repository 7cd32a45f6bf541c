"""Projections, indexes and key functions for watches that several operators share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fournos.engine.kube.resource import Key, Obj, Resource, controller_of, key_of
from fournos.engine.runtime.controller import Caches, IndexFunction

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
        if one["kind"] == resource.kind and one["apiVersion"] == resource.api_version
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
