"""Interruptions in the tables of jobs, and what a decision writes of them."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import PIPELINE_RUN
from fournos.engine.runtime.decision import Decision, Patch
from tests.unit.systems.jobs.passes import KEY, READY, a_workload, ago, true, written

EVICTED = a_workload(
    true("QuotaReserved"), true("Admitted"), true("Evicted", "Preempted", "make room"), READY
)
ASKED = {"stopRequestedAt": ago(10)}


def cancelled(how: str) -> Patch:
    return Patch(PIPELINE_RUN, KEY, {"spec": {"status": how}})


def stopped(decision: Decision) -> tuple[Any, ...]:
    return written(decision, "phase", "message", "stopRequestedAt", "cluster")
