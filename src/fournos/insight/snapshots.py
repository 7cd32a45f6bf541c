"""All objects of a kind at one moment, with the values that were computed from all of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from fournos.engine.kube.resource import Key, Obj, key_of, uid_of

T = TypeVar("T")
V = TypeVar("V")

Changed = tuple[Obj | None, Obj | None]
"""An object before and after a change; None before it was created, and after it was deleted."""


class ComputedView(Protocol[V]):
    """A way to compute a value; hashable.  A value is not changed: an earlier snapshot may still use it."""

    def of(self, objects: Iterable[Obj]) -> V:
        """Computes the value of these objects."""

    def updated(self, value: V, changes: Iterable[Changed]) -> V:
        """Computes the value after the changes, from the value before them."""


@dataclass(frozen=True, slots=True)
class Keyed(Generic[T]):
    """Maps keys to objects; `key` returns the key of an object, which no other object has."""

    key: Callable[[Obj], T]

    def of(self, objects: Iterable[Obj]) -> Mapping[T, Obj]:
        return {self.key(one): one for one in objects}

    def updated(self, value: Mapping[T, Obj], changes: Iterable[Changed]) -> Mapping[T, Obj]:
        updated_value = dict(value)
        for old, new in changes:
            if old is not None:
                updated_value.pop(self.key(old), None)
            if new is not None:
                updated_value[self.key(new)] = new
        return updated_value


BY_KEY: Final[Keyed[Key]] = Keyed(key_of)
BY_UID: Final[Keyed[str]] = Keyed(uid_of)


class PlacedItems(NamedTuple, Generic[T]):
    """The items of a group, sorted by their places: `items[i]` is at the place `places[i]`."""

    places: list[Any]
    items: list[T]


@dataclass(frozen=True, slots=True)
class Lines(Generic[T]):
    """Maps groups to their objects in order.

    `group` returns the group of an object, and None to leave it out.  `place` returns what the objects of a
    group are sorted by, which differs for each object.  `make` returns the item that stands for an object.
    """

    group: Callable[[Obj], Hashable]
    place: Callable[[Obj], Any]
    make: Callable[[Obj], T]

    def of(self, objects: Iterable[Obj]) -> Mapping[Any, PlacedItems[T]]:
        groups: dict[Hashable, list[tuple[Any, Obj]]] = {}
        for obj in objects:
            if (group := self.group(obj)) is not None:
                groups.setdefault(group, []).append((self.place(obj), obj))
        for placed in groups.values():
            placed.sort(key=_place)
        return {
            group: PlacedItems([place for place, _ in placed], [self.make(obj) for _, obj in placed])
            for group, placed in groups.items()
        }

    def updated(
        self, value: Mapping[Any, PlacedItems[T]], changes: Iterable[Changed]
    ) -> Mapping[Any, PlacedItems[T]]:
        updated_value = dict(value)
        copied: set[Hashable] = set()

        def line(group: Hashable) -> PlacedItems[T]:
            line = updated_value.get(group) or PlacedItems([], [])
            if group not in copied:
                copied.add(group)
                line = updated_value[group] = PlacedItems(line.places.copy(), line.items.copy())
            return line

        for old, new in changes:
            if old is not None and (group := self.group(old)) is not None:
                places, items = line(group)
                at = bisect_left(places, self.place(old))
                del places[at], items[at]
                if not places:
                    del updated_value[group]
                    copied.discard(group)
            if new is not None and (group := self.group(new)) is not None:
                places, items = line(group)
                place = self.place(new)
                at = bisect_left(places, place)
                places.insert(at, place)
                items.insert(at, self.make(new))
        return updated_value


def itself(obj: Obj) -> Obj:
    """Makes the items of a view that keeps the objects themselves."""
    return obj


def _place(one: tuple[Any, Obj]) -> Any:
    return one[0]


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
