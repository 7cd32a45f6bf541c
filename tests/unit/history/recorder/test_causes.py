"""What an object waits for, by its status: in the words of its operator and of Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB
from fournos.api.phase import CAUSE_OF_REASON, Cause
from fournos.engine.kube.resource import Obj, key_of
from fournos.history.recorder.observe import ObservedObject
from fournos.history.recorder.record import waits_for
from tests.unit.cli.objects import job, workload


def of_job(phase: str | None, **status: Any) -> tuple[str, str] | None:
    obj = job("one", phase, status=status)
    return waits_for(ObservedObject(key_of(obj), FOURNOS_JOB, obj))


@pytest.mark.parametrize(
    ("phase", "status", "expected"),
    [
        (None, {}, "Operator"),
        ("Resolving", {}, "Resolver"),
        ("Pending", {"waiting": {"cause": "Lock"}}, "Lock"),
        ("Admitted", {}, "Dispatch"),
        ("Running", {}, None),
        ("Stopping", {}, None),
        ("Failed", {"waiting": {"cause": "Lock"}}, None),
    ],
)
def test_a_job_waits_for_what_its_status_says(phase: str | None, status: Any, expected: str | None) -> None:
    found = of_job(phase, message="why\nnot", **status)
    assert found == (None if expected is None else (expected, "why not"))


def test_a_pending_job_whose_status_names_no_cause() -> None:
    assert of_job("Pending") == ("Quota", "")


def queued(workload: Obj | None) -> tuple[str, str] | None:
    wrapper = {**job("one", "Suspended"), "kind": "AppWrapper"}
    return waits_for(ObservedObject(key_of(wrapper), APPWRAPPER, wrapper, workload=workload))


def waiting(reason: str, status: str = "False") -> Obj:
    return workload(
        conditions=[{"type": "QuotaReserved", "status": status, "reason": reason, "message": "why"}]
    )


@pytest.mark.parametrize("reason", [*CAUSE_OF_REASON, "WaitingForQuota", "Pending"])
def test_another_kind_waits_for_what_kueue_says(reason: str) -> None:
    cause = CAUSE_OF_REASON.get(reason, Cause.QUOTA)
    assert queued(waiting(reason)) == (cause.value, "why")


def test_what_has_its_quota_or_no_workload_does_not_wait() -> None:
    assert queued(waiting("QuotaReserved", "True")) is None
    assert queued(None) is None
