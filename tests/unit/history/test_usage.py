"""GPU-hours of a period."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from fournos.history.usage import Share, Use, of_job, together, usage
from tests.unit.cli.objects import NOW, ago, job

SINCE = NOW - timedelta(hours=24)


def hours(number: float) -> datetime:
    return NOW - timedelta(hours=number)


def use(start: float, end: float | None, gpus: int = 2, owner: str = "ann", project: str = "p") -> Use:
    return Use(owner, "alpha", project, "a100", gpus, hours(start), None if end is None else hours(end))


@pytest.mark.parametrize(
    ("one", "spent"),
    [
        (use(10, 8), 4.0),
        (use(10, None), 20.0),
        (use(30, 20), 8.0),
        (use(48, None), 48.0),
        (use(48, 25), 0.0),
        (use(-1, None), 0.0),
        (use(2, 2), 0.0),
        (use(1, 2), 0.0),
        (use(2, 1, gpus=0), 0.0),
    ],
    ids=["within", "runs", "began before", "all of it", "before", "after", "no time", "clocks", "no GPUs"],
)
def test_only_the_time_within_the_period_counts(one: Use, spent: float) -> None:
    assert usage([one], SINCE, NOW).hours == pytest.approx(spent)


def test_the_largest_share_comes_first() -> None:
    found = usage([use(2, 1), use(4, 1, owner="ben"), use(2, 1, project="")], SINCE, NOW)
    assert found.owners == (Share("ben", 6.0, 1), Share("ann", 4.0, 2))
    assert found.projects == (Share("p", 8.0, 2), Share("", 2.0, 1))
    assert (found.hours, found.runs) == (10.0, 3)
    assert found.gpu_types == (Share("a100", 10.0, 3),)


def test_a_live_job_counts_as_its_stored_run_does() -> None:
    spec: dict[str, Any] = {"executionEngine": {"forge": {"project": "llmd"}}}
    times = {"running": ago(hours=3), "finished": ago(hours=1)}
    resolved = {"hardware": {"gpuType": "h200", "gpuCount": 4}}
    one = job(
        "one", "Succeeded", spec=spec, status={"cluster": "c", "phaseTimes": times, "resolved": resolved}
    )
    assert of_job(one) == Use("perf-team", "c", "llmd", "h200", 4, hours(3), hours(1))
    assert of_job(job("one", "Pending")) is None


def test_several_namespaces_are_added_up() -> None:
    first = usage([use(2, 1), use(2, 1, owner="ben")], SINCE, NOW)
    second = usage([use(4, 1), use(2, 1, project="q")], SINCE, NOW)
    assert together([first, second]) == usage(
        [use(2, 1), use(2, 1, owner="ben"), use(4, 1), use(2, 1, project="q")], SINCE, NOW
    )
    assert together([]) == usage([], SINCE, NOW)


def test_namespaces_are_added_up() -> None:
    uses = [use(13, 11), use(30, 1, owner="ben"), use(-1, None)]
    assert together([usage(uses[:1], SINCE, NOW), usage(uses[1:], SINCE, NOW)]) == usage(uses, SINCE, NOW)
