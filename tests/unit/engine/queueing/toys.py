"""Toys with capabilities of their own, and the steps that passes over them return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fournos.engine.kube.resource import Key, Obj, uid_of
from fournos.engine.queueing.job import MULTIKUEUE, QueueOptions
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import PodSetInfo
from fournos.engine.runtime.decision import (
    Create,
    Delete,
    EventRecord,
    Patch,
    Step,
)
from tests.unit.engine.queueing.test_reconcile import (
    TOY,
    Toy,
)

GOING: dict[str, Any] = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
QUIET = QueueOptions(pods_ready=False)
TIDY = Delete(TOY, Key("ns", "helper"), "h1")
HALT = Delete(TOY, Key("ns", "pods"), "p1")
SPAWN = Create(TOY, {"metadata": {"name": "pods", "namespace": "ns"}})


@dataclass
class Tidy(Toy):
    """Has objects that are deleted with its Workload."""

    def finalize_steps(self) -> Sequence[Step]:
        return (TIDY,)


@dataclass
class Spawning(Toy):
    """Starts by objects of its own, and is stopped by deleting them."""

    halts: bool = True
    asked: list[tuple[Any, str, str]] = field(default_factory=list)

    def start_steps(self, workload: Obj) -> Sequence[Step]:
        return (replace(SPAWN, own_label=uid_of(workload)),)

    def stop_steps(self, infos: Sequence[PodSetInfo] | None, reason: str, message: str) -> Sequence[Step]:
        self.asked.append((infos is not None, reason, message))
        return (HALT,) if self.halts else ()


@dataclass
class Switching(Toy):
    """Takes its Workload out of the queue for a time."""

    held: bool = False

    def held_back(self) -> bool:
        return self.held


@dataclass
class Managed(Toy):
    """Runs on another cluster."""

    by: str | None = MULTIKUEUE

    def managed_by(self) -> str | None:
        return self.by


def normal(reason: str, message: str) -> EventRecord:
    return EventRecord("Normal", reason, message)


def freed(workload: Obj) -> Patch:
    """Returns the removal of our finalizer from a Workload that has no other."""
    body = {"metadata": {"resourceVersion": "3", "finalizers": None}}
    return Patch(WORKLOAD, Key("ns", workload["metadata"]["name"]), body)


def suspended(known: bool) -> Patch:
    body = {"spec": {"suspend": True, "known": known}, "metadata": {"resourceVersion": "7"}}
    return Patch(TOY, Key("ns", "toy"), body)


RUNS: dict[str, Any] = {"suspended": False, "active": True}
