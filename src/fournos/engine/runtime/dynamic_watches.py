"""Dynamic watches: of resource types that only objects name, open as long as an object needs them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.runtime.controller import Controller, Watch

log = logging.getLogger(__name__)


class Followed:
    """The dynamic watches of one controller, counted by the primary objects that need them."""

    def __init__(
        self, controller: Controller[Any], open_: Callable[[Watch], None], close: Callable[[Resource], None]
    ) -> None:
        self._controller = controller
        self._own = frozenset(watch.resource for watch in controller.watches)
        self._open = open_
        self._close = close
        self._needed: dict[Resource, dict[Key, None]] = {}

    def changed(self, new: Obj | None, old: Obj | None = None) -> None:
        """Opens and closes watches for a primary object; `new` None: it is gone, and was `old`."""
        if self._controller.follow is None:
            return
        obj = new if new is not None else old
        if obj is None:
            return
        key = key_of(obj)
        watches = self._wanted(new) if new is not None else {}
        for resource in [one for one, keys in self._needed.items() if key in keys and one not in watches]:
            del self._needed[resource][key]
            if not self._needed[resource]:
                del self._needed[resource]
                self._close(resource)
        for resource, watch in watches.items():
            first = resource not in self._needed
            self._needed.setdefault(resource, {})[key] = None
            if first:
                self._open(watch)

    def keys(self, resource: Resource) -> tuple[Key, ...]:
        """Returns the primary objects that need the watch of this resource type."""
        return tuple(self._needed.get(resource, ()))

    def _wanted(self, obj: Obj) -> dict[Resource, Watch]:
        assert self._controller.follow is not None
        try:
            watches = tuple(self._controller.follow(obj))
        except Exception:  # a malformed object must not end the watch that delivers it
            log.exception(
                "%s: what it needs to have watched is unknown",
                self._controller.name,
                extra={"key": key_of(obj)},
            )
            return {}
        return {watch.resource: watch for watch in watches if watch.resource not in self._own}
