"""Computes values from all objects of a kind, and updates them by the changes of single objects."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

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
