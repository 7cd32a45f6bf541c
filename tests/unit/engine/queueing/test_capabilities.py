"""Which optional capabilities a kind has: those whose methods it has, all of them."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.queueing.job import (
    Capability,
    JobWithCustomStart,
    JobWithCustomStop,
    JobWithCustomWorkload,
    JobWithCustomWorkloadActivation,
    JobWithFinalize,
    JobWithManagedBy,
    JobWithPriorityClass,
    JobWithReclaimablePods,
    JobWithStartPatch,
)
from fournos.systems.appwrappers.decide import QueuedAppWrapper
from fournos.systems.jobs.queue import QueuedFournosJob

ALL = {
    JobWithCustomStart,
    JobWithCustomStop,
    JobWithCustomWorkload,
    JobWithCustomWorkloadActivation,
    JobWithFinalize,
    JobWithManagedBy,
    JobWithPriorityClass,
    JobWithReclaimablePods,
    JobWithStartPatch,
}


class Half:
    """Has one of the two methods of JobWithStartPatch."""

    def start(self, infos: Any) -> Any: ...


class Whole(Half):
    def stop(self, infos: Any) -> Any: ...


@pytest.mark.parametrize(
    ("kind", "has"),
    [
        (Half, set()),
        (Whole, {JobWithStartPatch}),
        (QueuedAppWrapper, {JobWithStartPatch, JobWithManagedBy}),
        (
            QueuedFournosJob,
            {JobWithCustomStart, JobWithCustomWorkload, JobWithCustomWorkloadActivation, JobWithManagedBy},
        ),
    ],
)
def test_a_kind_has_the_capabilities_whose_methods_it_has(kind: type, has: set[type]) -> None:
    assert {capability for capability in ALL if issubclass(kind, capability)} == has


def test_these_are_all_capabilities() -> None:
    assert set(Capability.__subclasses__()) == ALL
