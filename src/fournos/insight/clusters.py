"""What may be asked of a cluster, and when it is so.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fournos.api.conditions import condition
from fournos.api.durations import parse_ttl
from fournos.api.times import parse_time
from fournos.clusters.names import DISCOVER_ANNOTATION
from fournos.insight.errors import FournosError
from fournos.insight.values import name_of, spec_of, status_of
from fournos.kube.resource import Obj

UNLOCKED: Final[Mapping[str, Any]] = {"owner": "", "ttl": None, "drain": None}
"""The change that gives a cluster back."""


def lock_change(cluster: Obj, owner: str, *, ttl: str | None, drain: str | None, now: datetime) -> Obj:
    """The patch that locks it, bound to what was read: of two who lock at once one is refused.

    Raises FournosError where it is locked for somebody else, or `ttl` is over already.
    """
    changes = {"owner": owner, "ttl": ttl_of(ttl), **drain_change(drain)}
    current = spec_of(cluster).get("owner")
    if current and current != owner:
        raise FournosError(
            f"{name_of(cluster)} is locked for {current}",
            fix=f"ask {current}, or take it away from them: fournos cluster unlock {name_of(cluster)}",
        )
    begun = status_of(cluster).get("ownerSetAt")
    # A ttl counts from when the owner was first set, also when it is changed later.
    if ttl and begun and current == owner and parse_time(begun) + parse_ttl(ttl) <= now:
        raise FournosError(
            f"{ttl} after {begun}, when this lock began, has passed already",
            fix="give a longer --ttl, or unlock first",
        )
    return {"metadata": {"resourceVersion": cluster["metadata"]["resourceVersion"]}, "spec": changes}


def ttl_of(text: str | None) -> str | None:
    """Raises FournosError for what is no time to live."""
    try:
        if text:
            parse_ttl(text)
    except ValueError as error:
        raise FournosError(str(error), fix="write a number and m, h or d, such as --ttl 4h") from None
    return text


def drain_change(text: str | None) -> dict[str, Any]:
    """Raises FournosError for what is no way to drain; {} for None."""
    if text is None:
        return {}
    found = {"wait": "Wait", "stop": "Stop"}.get(text.lower())
    if found is None:
        raise FournosError(f"{text} is no way to drain", fix="write wait or stop")
    return {"drain": found}


def discover_change(asked: str) -> Obj:
    """The patch that asks for a new look; `asked` is now, as a text."""
    return {"metadata": {"annotations": {DISCOVER_ANNOTATION: asked}}}


def lock_of(cluster: Obj) -> Mapping[str, Any]:
    return status_of(cluster).get("lock") or {}


def locked_for(cluster: Obj, owner: str) -> bool:
    return bool(status_of(cluster).get("locked")) and lock_of(cluster).get("owner") == owner


def drained(cluster: Obj) -> bool:
    return (condition(cluster, "Draining") or {}).get("reason") == "Drained"


def looked_at(cluster: Obj, asked: str) -> bool:
    """Whether the look that was asked for has been taken."""
    status = status_of(cluster)
    return status.get("discoverRequested") == asked and bool(
        (status.get("hardware") or {}).get("lastAttempt")
    )
