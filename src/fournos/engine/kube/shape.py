"""Checks whether a response is a valid object; other clusters may return anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.engine.kube.errors import ConnectionLostError
from fournos.engine.kube.resource import Key, Obj

_TEXTS: Final = ("name", "uid", "resourceVersion")
_OPTIONAL_TEXTS: Final = ("namespace", "creationTimestamp", "deletionTimestamp")
_LONGEST: Final = 253
"""Maximum characters of a name; UIDs and resourceVersions are shorter."""


def malformed(obj: Any, key: Key | None = None) -> str:
    """Returns why this is not a valid object, "" if it is one; `key` is that of the requested object."""
    if not isinstance(obj, Mapping):
        return "it is not an object"
    meta = obj.get("metadata")
    if not isinstance(meta, Mapping):
        return "it has no metadata"
    for name in _TEXTS:
        if not isinstance(meta.get(name), str) or not 0 < len(meta[name]) <= _LONGEST:
            return f"metadata.{name} is not a name"
    for name in _OPTIONAL_TEXTS:
        if not isinstance(meta.get(name, ""), str):
            return f"metadata.{name} is not text"
    for name in ("labels", "annotations"):
        if not _is_map_of_texts(meta.get(name) or {}):
            return f"metadata.{name} is not a map of texts"
    if not _is_list_of(meta.get("finalizers") or [], str):
        return "metadata.finalizers is not a list of texts"
    owners = meta.get("ownerReferences") or []
    if not _is_list_of(owners, Mapping) or not all(isinstance(one.get("uid"), str) for one in owners):
        return "metadata.ownerReferences is not a list of references"
    for name in ("spec", "status"):
        if not isinstance(obj.get(name) or {}, Mapping):
            return f"{name} is not an object"
    if key is not None and (meta.get("namespace") or "", meta["name"]) != tuple(key):
        return f"it is another object than {key}"
    return ""


def checked(obj: Any, key: Key) -> Obj:
    """Returns the response to a request for this object; raises ConnectionLostError if it is invalid."""
    if wrong := malformed(obj, key):
        raise ConnectionLostError(f"the answer for {key} is not an API server's: {wrong}")
    return obj  # type: ignore[no-any-return]


def _is_map_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)
