"""What a cache keeps of an object, and whom its events wake: the answers that systems share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fournos.kube.resource import Key, Obj, controller_of, key_of
from fournos.runtime.system import Caches

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


def pick(obj: Mapping[str, Any] | None, kept: Iterable[str]) -> dict[str, Any]:
    """These fields, as far as they are there."""
    found = obj or {}
    return {name: found[name] for name in kept if name in found}


def metadata(obj: Obj, *more: str) -> dict[str, Any]:
    return pick(obj["metadata"], (*METADATA, *more))


def project_metadata(obj: Obj) -> Obj:
    return {"metadata": metadata(obj)}


def controller_uid(obj: Obj) -> Iterable[str]:
    """An index: who controls it."""
    owner = controller_of(obj)
    return (str(owner["uid"]),) if owner else ()


def own_key(obj: Obj, caches: Caches) -> Iterable[Key]:
    """Wakes the object itself: of the primary kind."""
    return (key_of(obj),)


def nobody(obj: Obj, caches: Caches) -> Iterable[Key]:
    """Wakes none: what is only looked up."""
    return ()
