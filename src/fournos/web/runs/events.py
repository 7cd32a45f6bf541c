"""The Events about a job, as the API server or the history has them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fournos.engine.kube.resource import Obj
from fournos.insight.values import moment, one_line


@dataclass(frozen=True, slots=True)
class Event:
    at: str
    """RFC 3339; "" if it is not known."""
    type: str
    reason: str
    about: str
    note: str
    count: int


def live_events(objs: Iterable[Obj]) -> list[Event]:
    """Events of the API events.k8s.io/v1, the newest first."""
    return recorded_events(map(_as_recorded, objs))


def _as_recorded(event: Obj) -> dict[str, Any]:
    """Returns the entry that the document of the history has for the event."""
    series, about = event.get("series") or {}, event.get("regarding") or {}
    at = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
    return {
        **event,
        "kind": about.get("kind"),
        "name": about.get("name"),
        "at": at or event["metadata"].get("creationTimestamp"),
        "count": series.get("count") or event.get("deprecatedCount"),
    }


def recorded_events(document: Any) -> list[Event]:
    """The document of the history, the newest first."""
    rows = [
        Event(
            _time(event.get("at")),
            str(event.get("type") or ""),
            str(event.get("reason") or ""),
            f"{event.get('kind')} {event.get('name')}",
            one_line(event.get("note")),
            int(event.get("count") or 1),
        )
        for event in document or ()
    ]
    return sorted(rows, key=lambda event: event.at, reverse=True)


def _time(text: Any) -> str:
    return str(text) if moment(text) else ""
