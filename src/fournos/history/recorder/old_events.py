"""Removes the Events from the recorder's cache that no record will have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fournos.engine.kube.resource import EVENT, Resource, uid_of
from fournos.engine.runtime.controller import Caches
from fournos.history.recorder.projections import UNRECORDED, about_value

ABOUT: Final = "about"
"""The index of the Events by `fournos.history.recorder.projections.regarded`."""
BEHIND: Final = 300.0
"""Seconds that the cache of the objects may be behind that of the Events: Events that came first are kept."""


class OldEvents:
    """Finds the Events of objects that are gone; Kubernetes keeps Events for an hour.

    An Event that changes, or another list of the Events, brings them back, until they are found again.
    """

    def __init__(self, resources: Mapping[str, Resource], monotonic: Callable[[], float]) -> None:
        """`resources`: kind of the objects whose Events these are → the cache that has all of them."""
        self._resources = resources
        self._monotonic = monotonic
        self._gone_since: dict[str, float] = {}
        """Value of the index → when its object was first missing."""

    def forget(self, caches: Caches) -> None:
        """Removes the Events of unrecorded kinds, and those whose object has been gone for BEHIND seconds."""
        events, now = caches[EVENT], self._monotonic()
        live = {
            about_value(kind, uid_of(obj))
            for kind, resource in self._resources.items()
            for obj in caches[resource]
        }
        gone = [
            value
            for value in events.values(ABOUT)
            if value not in live and value.partition("/")[0] in self._resources
        ]
        self._gone_since = {value: self._gone_since.get(value, now) for value in gone}
        for value, since in self._gone_since.items():
            if now - since >= BEHIND:
                events.forget(ABOUT, value)
        events.forget(ABOUT, UNRECORDED)
