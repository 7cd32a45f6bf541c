"""A trigger: asks for a fire of a schedule now, by an annotation, since the jobs' labels are the operator's.

Whoever sets it needs the right to create FournosJobs, as the author of a schedule does (`author.review`).
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fournos.api.fournosschedule import MAX_TRIGGER, ActiveFire
from fournos.engine.kube.resource import Obj
from fournos.systems.schedules.names import TRIGGER_ANNOTATION

_MAX_ID: Final = 63
"""Maximum number of characters of an id."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """What the annotation asks for."""

    id: str
    """Differs from that of each trigger before it: a trigger is taken up once."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the job's spec to set in this fire, by path; None removes one."""

    def text(self) -> str:
        """Returns the value of the annotation."""
        return json.dumps({"id": self.id, **({"set": dict(self.changes)} if self.changes else {})})


def trigger_text(schedule: Obj) -> str | None:
    """Returns the annotation as it is; None if there is none."""
    text = (schedule["metadata"].get("annotations") or {}).get(TRIGGER_ANNOTATION)
    return None if text is None else str(text)


def trigger_of(schedule: Obj) -> Trigger | None:
    """Returns the trigger that was set last; None if there is none, or none that can be read."""
    return parsed(trigger_text(schedule))


def changes_of(fire: ActiveFire) -> Mapping[str, Any]:
    """Returns the fields that the trigger of a fire sets."""
    trigger = parsed(fire.trigger)
    return trigger.changes if trigger else {}


def parsed(text: str | None) -> Trigger | None:
    """Returns the trigger of an annotation's text; None for any other text, or a longer one."""
    if text is None or len(text) > MAX_TRIGGER:
        return None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict) or not isinstance(given.get("set", {}), dict):
        return None
    name, changes = str(given.get("id") or ""), given.get("set", {})
    paths = all(part for path in changes for part in path.split("."))
    return Trigger(name, changes) if 0 < len(name) <= _MAX_ID and paths else None
