"""Our finalizer on an object: added before anything depends on it, removed last."""

from __future__ import annotations

from typing import Any

from fournos.engine.kube.resource import Obj


def holds(obj: Obj, finalizer: str) -> bool:
    """True if the object has this finalizer."""
    return finalizer in (obj["metadata"].get("finalizers") or ())


def switched(obj: Obj, finalizer: str, *, on: bool) -> dict[str, Any]:
    """Returns the `metadata` of a merge patch that adds the finalizer (`on`) or removes it.

    A merge patch replaces the whole list.  The resourceVersion is a precondition, so that a finalizer that
    another client has added meanwhile is not lost.
    """
    meta = obj["metadata"]
    rest = [name for name in meta.get("finalizers") or () if name != finalizer]
    wanted = [*rest, finalizer] if on else rest
    return {"resourceVersion": meta["resourceVersion"], "finalizers": wanted or None}
