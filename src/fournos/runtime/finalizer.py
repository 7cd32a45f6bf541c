"""A finalizer of ours on an object: put on before anything depends on it, taken off last."""

from __future__ import annotations

from typing import Any

from fournos.kube.resource import Obj


def holds(obj: Obj, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or ())


def switched(obj: Obj, finalizer: str, *, on: bool) -> dict[str, Any]:
    """The `metadata` of a merge patch that puts it on or takes it off.

    A merge patch replaces the list whole: the resourceVersion keeps a finalizer that somebody else has put on
    meanwhile.
    """
    meta = obj["metadata"]
    rest = [name for name in meta.get("finalizers") or () if name != finalizer]
    wanted = [*rest, finalizer] if on else rest
    return {"resourceVersion": meta["resourceVersion"], "finalizers": wanted or None}
