"""Conditions (metav1.Condition): found by type, never by index, and updated in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fournos.engine.api.values import format_time

MESSAGE_MAX = 32768
"""Maximum characters of a condition's message, the limit of the API server."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The wanted state of one condition."""

    type: str
    status: str
    """"True", "False" or "Unknown"."""
    reason: str
    message: str


def condition(obj: Mapping[str, Any], type_: str) -> Mapping[str, Any] | None:
    """Returns the condition of this type in `status.conditions`, if any."""
    # Nothing but its operator keeps the status of any kind in shape.
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for found in conditions if isinstance(conditions, list | tuple) else ():
        if isinstance(found, dict) and found.get("type") == type_:
            return found
    return None


def is_true(obj: Mapping[str, Any], type_: str) -> bool:
    """True if the condition of this type has the status "True"."""
    return (condition(obj, type_) or {}).get("status") == "True"


def upsert(
    conditions: Iterable[Mapping[str, Any]],
    new: Condition,
    *,
    now: datetime,
    generation: int | None = None,
) -> list[Mapping[str, Any]]:
    """Returns the list with this condition replaced in its place, or appended.

    `lastTransitionTime` changes only when the status changes; an equal condition stays as it is.
    """
    entry: dict[str, Any] = {
        "type": new.type,
        "status": new.status,
        "reason": new.reason,
        "message": new.message[:MESSAGE_MAX],
        "lastTransitionTime": format_time(now),
    }
    if generation is not None:
        entry["observedGeneration"] = generation
    result: list[Mapping[str, Any]] = []
    placed = False
    for existing in conditions:
        if existing.get("type") != new.type:
            result.append(existing)
            continue
        placed = True
        if existing.get("status") == new.status and existing.get("lastTransitionTime"):
            entry["lastTransitionTime"] = existing["lastTransitionTime"]
        result.append(entry)
    if not placed:
        result.append(entry)
    return result
