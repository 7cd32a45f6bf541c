"""What the recorder asks of the log collector, and what it decides of it.  Pure, apart from the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.kube.store import Store
from fournos.engine.runtime.steps import Custom
from fournos.history.logs.models import Container
from fournos.history.records import Identity


@dataclass(frozen=True, slots=True)
class Known:
    """What the collector knows of a container."""

    ended: bool
    done: bool
    """True if nothing more will be stored."""


class Logs(Protocol):
    """The collector; `fournos.history.logs.collector` has it."""

    def watch(self, pods: Store) -> None:
        """Takes the cache of the pods, which shows whether a pod still exists."""

    def known(self, uid: str) -> Mapping[tuple[str, str], Known]:
        """Returns the containers of a run that are followed, by `Container.id`."""

    def behind(self, pod: Obj) -> bool:
        """True if the pod shows a start or an end that the collector does not know."""

    def follow(self, key: Key, identity: Identity, containers: Iterable[Container], server: Any) -> None:
        """Follows these containers; what is known of one is brought up to date."""

    def forget(self, uid: str) -> None:
        """Drops a run whose object is gone, as soon as its streams have ended."""


@dataclass(frozen=True, slots=True)
class FollowLogs(Custom):
    """Follows containers of a run, or brings what is known of them up to date."""

    key: Key
    identity: Identity
    containers: tuple[Container, ...]


def news(containers: Iterable[Container], known: Mapping[tuple[str, str], Known]) -> tuple[Container, ...]:
    """Returns the containers that have started or ended without the collector knowing."""
    return tuple(
        one for one in containers if (found := known.get(one.id)) is None or (one.ended and not found.ended)
    )


def pending(containers: Iterable[Container], known: Mapping[tuple[str, str], Known]) -> bool:
    """True if lines of a started container are still to be stored."""
    return any((found := known.get(one.id)) is None or not found.done for one in containers)
