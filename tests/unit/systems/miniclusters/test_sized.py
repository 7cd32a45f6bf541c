"""Which size a MiniCluster may have, and which quota it gives back, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.queueing.job import QueueInputs
from fournos.engine.runtime.decision import Present, Unknown
from fournos.systems.miniclusters import start
from tests.unit.systems.miniclusters.actors import NS
from tests.unit.systems.miniclusters.contexts import ctx, job, owner, runs

# --- its size ----------------------------------------------------------------------------------------------

BY_ITSELF = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
RESERVED: dict[str, Any] = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}
RECLAIMED = {**RESERVED, "reclaimablePods": [{"name": "main", "count": 2}]}


@pytest.mark.parametrize(
    ("requested", "now", "more", "quota", "size", "refused"),
    [
        (3, 2, {}, None, 3, ""),
        (9, 2, {}, None, 4, "size 9 is more than the 4 hosts that Flux began with"),
        (0, 2, {}, None, 1, ""),
        (4, 2, {}, RESERVED, 4, ""),
        (1, 2, {}, RECLAIMED, 1, ""),
        (2, 1, {}, RECLAIMED, 2, ""),
        (
            3,
            2,
            {},
            RECLAIMED,
            2,
            "size stays 2: the quota of 2 pods was given back when it shrank; suspend the MiniCluster to "
            "queue it for all of them again",
        ),
        (4, 3, {}, RECLAIMED, 3, "size stays 3: the quota of 2 pods was given back"),
        (3, 2, BY_ITSELF, None, 2, "size stays 2: the Job is queued by jobLabels, and Kueue would stop it;"),
        (2, 2, BY_ITSELF, None, 2, ""),
    ],
)
def test_which_size_it_may_have(
    requested: int, now: int, more: dict[str, Any], quota: Any, size: int, refused: str
) -> None:
    one = job(size=now)
    one["metadata"] |= more
    inputs = QueueInputs(workloads=(_workload(quota),)) if quota else None
    found = start.allowed(
        ctx(job=one, status={"maximumSize": 4, "size": now}, inputs=inputs, size=requested), one
    )
    assert found.size == size
    assert found.refused.startswith(refused) and bool(found.refused) is bool(refused)


def _workload(status: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "flux", "namespace": NS, "ownerReferences": owner("MiniCluster", "mc")}
    return {"metadata": meta, "status": status}


# --- its quota ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "cached", "live", "given"),
    [
        (1, (runs(0),), Present((runs(0),)), 3),
        (1, (runs(0), runs(1)), Present((runs(0),)), 3),
        (1, (runs(0),), Present((runs(0), runs(1))), 0),
        (1, (runs(0),), Unknown("", ""), 0),
        (2, (runs(0), runs(1)), Present((runs(0), runs(1))), 0),
    ],
    ids=["gone", "the cache is late", "still there", "unknown", "not shrunk"],
)
def test_quota_is_given_back_once_pods_are_gone(size: int, cached: Any, live: Any, given: int) -> None:
    reported = {"maximumSize": 4, "size": 2}
    inputs = QueueInputs(workloads=(_workload(RESERVED),))
    one = ctx(*cached, job=job(size=size), status=reported, live=live, inputs=inputs)
    assert start.given_back(one) == given
