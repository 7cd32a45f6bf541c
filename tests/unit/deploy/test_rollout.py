"""When a Deployment has rolled out: not by the conditions, which a broken image leaves behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dev.rollout import await_rollout
from devcluster import DevclusterError
from devcluster.kubectl import rolled_out

SELECTOR = {"matchLabels": {"app": "fournos"}}
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def deployment(seen: int, pods: int, updated: int, available: int) -> dict[str, Any]:
    """The second generation, two replicas; an earlier one has exceeded its deadline."""
    status = {
        "observedGeneration": seen,
        "replicas": pods,
        "updatedReplicas": updated,
        "availableReplicas": available,
        "conditions": [LATE],
    }
    return {"metadata": {"generation": 2}, "spec": {"replicas": 2, "selector": SELECTOR}, "status": status}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (deployment(2, 2, 2, 2), True),
        (deployment(1, 2, 2, 2), False),
        (deployment(2, 3, 2, 2), False),
        (deployment(2, 2, 1, 2), False),
        (deployment(2, 2, 2, 1), False),
        ({"metadata": {"generation": 1}, "spec": {"replicas": 1}}, False),
    ],
    ids=["done", "not seen yet", "an old pod is left", "an old one counts", "not available", "new"],
)
def test_rolled_out(found: dict[str, Any], expected: bool) -> None:
    assert rolled_out(found) is expected


def test_a_condition_of_an_earlier_image_ends_no_wait() -> None:
    answers = iter([deployment(2, 3, 1, 2), deployment(2, 2, 2, 2)])
    await_rollout(lambda *words: json.dumps(next(answers)), "fournos", limit=60)
    assert next(answers, None) is None


def test_after_the_limit_the_status_is_shown() -> None:
    broken = json.dumps(deployment(2, 3, 1, 2))
    with pytest.raises(DevclusterError) as late:
        await_rollout(lambda *words: broken, "fournos", limit=0)
    assert "ProgressDeadlineExceeded" in str(late.value) + str(vars(late.value))
