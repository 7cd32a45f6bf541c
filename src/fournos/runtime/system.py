"""What a system gives to the runtime: which objects it watches, and how it observes and decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fournos.kube.resource import Key, Obj, Resource
from fournos.kube.store import Store
from fournos.runtime.decision import Decide

IndexFunction = Callable[[Obj], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Watch:
    """One watch-fed cache.

    `project` keeps of an object what decisions read (measured: a PipelineRun shrinks from 20 kB to 2);
    `indexes` make objects findable by owner UID, label and the like; `wakes` names the keys of the
    primary kind that an event about this object concerns.
    """

    resource: Resource
    wakes: Callable[[Obj, Caches], Iterable[Key]]
    namespace: str = ""
    selector: str = ""
    project: Callable[[Obj], Obj] | None = None
    indexes: Mapping[str, IndexFunction] = field(default_factory=dict)
    required: bool = True
    """False: the resource type may be missing (its CRD is not installed); its cache then is empty."""


class Caches:
    """The stores of one API server by resource type."""

    def __init__(self, stores: Mapping[Resource, Store]) -> None:
        self._stores = stores

    def __getitem__(self, resource: Resource) -> Store:
        return self._stores[resource]

    def served(self, resource: Resource) -> bool:
        """Whether the API server serves this type at all, as far as its watch knows."""
        return self._stores[resource].served


Observed = TypeVar("Observed")


@dataclass(frozen=True, slots=True)
class System(Generic[Observed]):
    """A controller as data.  The first watch is that of the primary kind."""

    name: str
    watches: tuple[Watch, ...]
    observe: Callable[[Caches, Key], Observed | None]
    """None: there is nothing to decide (the object is gone)."""
    decide: Decide[Observed]
    primary: Callable[[Observed], Obj]
    """The observed object: its status is written, events are about it."""
    collect: Callable[[Caches], Iterable[Key]] | None = None
    """Keys for the periodic garbage collection; None: the system has none."""

    @property
    def resource(self) -> Resource:
        return self.watches[0].resource
