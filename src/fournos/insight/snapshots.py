"""All objects of a kind at one moment, with the values that were computed from all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, Final, TypeVar, cast

from fournos.engine.kube.resource import Obj, key_of
from fournos.insight.views import Changed, ComputedView, Lines

V = TypeVar("V")

CARRIED: Final = 500
"""Changes by which an earlier value is brought up to date; after more it is computed anew."""


class ObjectSnapshot(list[Obj]):
    """The objects until one of them changes.  Neither it nor the values of its views may be changed."""

    def __init__(
        self,
        objects: Iterable[Obj],
        before: ObjectSnapshot | None = None,
        changes: Sequence[Changed] | None = None,
    ) -> None:
        """`changes`: all that lies between the snapshot `before` and this one; None if that is not known."""
        super().__init__(objects)
        self._values: dict[ComputedView[Any], Any] = {}
        self._earlier: dict[ComputedView[Any], tuple[Any, Sequence[Changed]]] = {}
        """The values of earlier snapshots that were not asked for since, and what has changed."""
        self._parts: dict[frozenset[str], ObjectSnapshot] = {}
        self._parts_before: dict[frozenset[str], ObjectSnapshot] = {}
        self._changes: Sequence[Changed] = ()
        if before is None or changes is None or len(changes) > CARRIED:
            return
        self._parts_before, self._changes = before._parts, changes
        self._earlier = {view: (value, changes) for view, value in before._values.items()}
        for view, (value, since) in before._earlier.items():
            if view not in self._earlier and len(since) + len(changes) <= CARRIED:
                self._earlier[view] = value, [*since, *changes]

    def value(self, view: ComputedView[V]) -> V:
        """Returns the value of a view, which is computed once."""
        if view not in self._values:
            earlier = self._earlier.pop(view, None)
            self._values[view] = view.updated(*earlier) if earlier else view.of(self)
        return cast(V, self._values[view])

    def within(self, namespaces: frozenset[str]) -> ObjectSnapshot:
        """Returns the objects of some namespaces, with views of their own."""
        if namespaces not in self._parts:
            self._parts[namespaces] = ObjectSnapshot(
                (one for one in self if key_of(one).namespace in namespaces),
                self._parts_before.get(namespaces),
                [one for one in self._changes if _namespace(one) in namespaces],
            )
        return self._parts[namespaces]


def _namespace(change: Changed) -> str:
    old, new = change
    return key_of(new or old or {}).namespace


_NAMESPACES: Final = Lines(lambda one: key_of(one).namespace, key_of, key_of)


def namespaces(objects: Iterable[Obj]) -> Set[str]:
    return valued(objects, _NAMESPACES).keys()


def within(objects: Iterable[Obj], names: frozenset[str]) -> list[Obj]:
    """Returns the objects of some namespaces; a snapshot if the objects are one."""
    found = objects if isinstance(objects, ObjectSnapshot) else ObjectSnapshot(objects)
    return found.within(names)


def valued(objects: Iterable[Obj], view: ComputedView[V]) -> V:
    """Returns the value of a view: that of the snapshot if the objects are one."""
    return objects.value(view) if isinstance(objects, ObjectSnapshot) else view.of(objects)
