"""Interruptions in the tables of jobs, and what a decision writes of them."""

from __future__ import annotations

from typing import Any

from fournos.jobs.kinds import PIPELINE_RUN
from fournos.runtime.decision import Decision
from fournos.runtime.steps import Patch
from tests.unit.jobs.passes import KEY, READY, a_workload, ago, true, written

EVICTED = a_workload(
    true("QuotaReserved"), true("Admitted"), true("Evicted", "Preempted", "make room"), READY
)
ASKED = {"stopRequestedAt": ago(10)}


def cancelled(how: str) -> Patch:
    return Patch(PIPELINE_RUN, KEY, {"spec": {"status": how}})


def stopped(decision: Decision) -> tuple[Any, ...]:
    return written(decision, "phase", "message", "stopRequestedAt", "cluster")
