"""Times in the format of Kubernetes: RFC 3339, UTC, whole seconds (metav1.Time)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def format_time(moment: datetime) -> str:
    """Returns the time in the format of metav1.Time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Parses a time; fractions of a second are accepted.  Raises ValueError if it is not RFC 3339."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is not within the years 1 to 9999 of UTC") from None


def creation_time(obj: Mapping[str, Any]) -> datetime:
    """Returns when the API server created the object."""
    return parse_time(obj["metadata"]["creationTimestamp"])
