"""The containers whose logs are stored, as the recorder decides on them.  Pure, apart from the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.steps import Custom
from fournos.history.logs.models import StartedContainer
from fournos.history.records import Identity


@dataclass(frozen=True, slots=True)
class FollowedLog:
    """The log of a container that the collector follows."""

    ended: bool
    """True if the collector was told that the container has ended."""
    done: bool
    """True if nothing more will be stored."""


@dataclass(frozen=True, slots=True)
class FollowLogs(Custom):
    """Follows containers of a run; the collector takes the newest state of those that it follows already."""

    key: Key
    identity: Identity
    containers: tuple[StartedContainer, ...]


def news(
    containers: Iterable[StartedContainer], followed: Mapping[tuple[str, str], FollowedLog]
) -> tuple[StartedContainer, ...]:
    """Returns the containers whose start or end was not reported to the collector."""
    return tuple(
        one for one in containers if (log := followed.get(one.id)) is None or (one.ended and not log.ended)
    )


def pending(containers: Iterable[StartedContainer], followed: Mapping[tuple[str, str], FollowedLog]) -> bool:
    """True if lines of a started container are still to be stored."""
    return any((log := followed.get(one.id)) is None or not log.done for one in containers)
