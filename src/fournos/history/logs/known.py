"""The containers whose logs are stored, as the recorder decides on them.  Pure, apart from the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.steps import Custom
from fournos.history.logs.models import Container
from fournos.history.records import Identity


@dataclass(frozen=True, slots=True)
class Known:
    """What the collector knows of a container."""

    ended: bool
    done: bool
    """True if nothing more will be stored."""


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
