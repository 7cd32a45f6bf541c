"""Which changes of a job make its Workload unfit, by the state of both."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.queueing.ensure import equivalent
from fournos.engine.queueing.workload import PodSet


def template(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container], **spec}}


def workload(
    count: int = 4, *, granted: int | None = None, admitted: bool = False, **pod_set: Any
) -> dict[str, Any]:
    """A Workload of one pod set; `granted` pods when it holds quota."""
    stored = {"name": "main", "count": count, "template": template(), **pod_set}
    conditions: list[dict[str, Any]] = []
    status: dict[str, Any] = {"conditions": conditions}
    if granted is not None:
        conditions.append({"type": "QuotaReserved", "status": "True"})
        status["admission"] = {"podSetAssignments": [{"name": "main", "count": granted}]}
    if admitted:
        conditions.append({"type": "Admitted", "status": "True"})
    return {"spec": {"podSets": [stored]}, "status": status}


def fits(
    stored: dict[str, Any],
    *,
    count: int = 4,
    suspended: bool = True,
    min_count: int | None = None,
    limit: int | None = None,
    **spec: Any,
) -> bool:
    pod_set = PodSet("main", count, template(**spec), min_count=min_count)
    return equivalent([pod_set], limit, stored, suspended=suspended)


@pytest.mark.parametrize(
    ("count", "suspended", "expected"),
    [
        (2, False, True),  # it runs with what it was granted
        (2, True, True),  # about to start with it
        (4, True, True),  # not started yet: the number in its spec is still the whole one
        (4, False, False),  # runs with more pods than it was granted
        (3, True, False),  # neither the granted nor the asked number
    ],
)
def test_after_partial_admission_the_full_count_fits_only_while_suspended(
    count: int, suspended: bool, expected: bool
) -> None:
    stored = workload(4, granted=2, minCount=1)
    assert fits(stored, count=count, suspended=suspended, min_count=1) is expected


def test_without_partial_admission_the_granted_count_is_not_taken() -> None:
    assert fits(workload(4, granted=2), count=4, suspended=False)
    assert not fits(workload(4, granted=2), count=2, suspended=False)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [(workload(), False), (workload(granted=4), False), (workload(granted=4, admitted=True), True)],
    ids=["waiting", "quota reserved", "admitted"],
)
def test_tolerations_count_until_admission(stored: dict[str, Any], expected: bool) -> None:
    assert fits(stored, tolerations=[{"key": "gpu", "operator": "Exists"}]) is expected


def test_the_time_limit_counts() -> None:
    stored = workload()
    assert not fits(stored, limit=60)
    stored["spec"]["maximumExecutionTimeSeconds"] = 60
    assert fits(stored, limit=60)
    assert not fits(stored)


def test_requests_count_by_value_and_the_number_of_pod_sets_counts() -> None:
    assert fits(workload(), cpu="1000m")
    assert not fits(workload(), cpu="2")
    assert not equivalent([], None, workload(), suspended=True)


def test_a_workload_without_a_count_has_one_pod() -> None:
    stored = workload(1)
    del stored["spec"]["podSets"][0]["count"]
    assert fits(stored, count=1) and not fits(stored, count=2)


@pytest.mark.parametrize(
    "extra",
    [{"terminationMessagePolicy": "File"}, {"workingDir": None}, {"ports": []}],
    ids=["a default of the API server", "null", "empty"],
)
def test_what_the_api_server_fills_in_changes_nothing(extra: dict[str, Any]) -> None:
    stored = workload()
    stored["spec"]["podSets"][0]["template"]["spec"]["containers"][0] |= extra
    assert fits(stored)
    stored["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["workingDir"] = "/w"
    assert not fits(stored)
