"""Nomination, as a table: which workers are asked, and what is written while none can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.multikueue.context import Context, Remote
from fournos.multikueue.nominate import nominate
from fournos.multikueue.workers import RemoteFailure
from fournos.queueing.kinds import WORKLOAD
from fournos.runtime.decision import Decision, Facts
from fournos.runtime.steps import Create, Delete
from tests.unit.multikueue.test_decisions import (
    AT,
    JOB,
    NOW,
    SETTINGS,
    TOY,
    observed,
    orders,
    remote,
    true,
    twin,
    workload,
)

ATTEMPT = f"{AT}/0"
TAKEN = RemoteFailure("ForeignObject", "b is taken", ATTEMPT)
LOST = RemoteFailure("ConnectionLostError", "no route", ATTEMPT)


def away(name: str, reason: str = "", failure: RemoteFailure | None = None) -> Remote:
    return Remote(name, listed=True, usable=False, unusable_reason=reason, failure=failure)


def refusing(name: str, **changes: Any) -> Remote:
    return replace(remote(name, there=False), failure=TAKEN, **changes)


def nominated(*remotes: Remote, left: tuple[Remote, ...] = (), **settings: Any) -> Decision:
    around = observed(workload(), *remotes)
    changed = SETTINGS.model_copy(update=settings)
    return nominate(Context(observed=around, facts=Facts({}), now=NOW, settings=changed), left)


def check(decision: Decision) -> tuple[str, str]:
    assert decision.status is not None
    (found,) = decision.status["admissionChecks"]
    return found["state"], found["message"]


@pytest.mark.parametrize(
    ("remotes", "state", "message"),
    [
        ((), "Pending", "The AdmissionCheck's MultiKueueConfig names no cluster, or does not exist"),
        (
            (replace(remote("a"), listed=False),),
            "Pending",
            "The AdmissionCheck's MultiKueueConfig names no cluster, or does not exist",
        ),
        ((refusing("a"),), "Rejected", 'No worker can take it: "a": b is taken'),
        (
            (refusing("a"), refusing("b")),
            "Rejected",
            'No worker can take it: "a": b is taken; "b": b is taken',
        ),
        ((away("a"),), "Pending", 'No worker can be used: "a": not connected yet'),
        (
            (away("a", "its kubeconfig is no YAML", LOST), refusing("b")),
            "Pending",
            'No worker can be used: "b": b is taken; "a": its kubeconfig is no YAML',
        ),
    ],
)
def test_what_is_written_while_no_worker_can_be_asked(
    remotes: tuple[Remote, ...], state: str, message: str
) -> None:
    found = nominated(*remotes)
    assert check(found) == (state, message)
    assert found.status is not None and not found.status.get("nominatedClusterNames")


def test_what_refuses_it_and_still_has_objects_is_cleared_at_once() -> None:
    """Without a stop first: nothing runs of an attempt that nobody took."""
    found = nominated(refusing("a", workload=twin("a", true("QuotaReserved")), jobs=((TOY, JOB),)))
    assert [(one.worker, type(one.step), one.step.resource) for one in found.steps] == [("a", Delete, TOY)]  # type: ignore[union-attr]
    found = nominated(refusing("a", workload=twin("a", true("QuotaReserved"))))
    assert [(one.worker, one.step.resource) for one in found.steps] == [("a", WORKLOAD)]  # type: ignore[union-attr]


def test_a_worker_that_has_objects_of_an_earlier_attempt_is_waited_for() -> None:
    """Its deletion has begun: it is not asked for another, and no refusal of others is final meanwhile."""
    earlier = refusing("a", workload=twin("a"), jobs=((TOY, JOB),))
    found = nominated(earlier, refusing("b"), left=(earlier,))
    state, message = check(found)
    assert state == "Pending" and orders(found) == []
    assert message == (
        'No worker can be used: "b": b is taken; '
        '"a" still has Toy ns/toy, Workload ns/w of an earlier attempt: b is taken'
    )


def test_only_so_many_are_asked_at_first() -> None:
    free = [remote(name, there=False) for name in "abc"]
    together = nominated(*free)
    assert orders(together) == [(name, Create) for name in "abc"] and together.wake_at is None
    one_by_one = {"dispatcher": "incremental", "incremental_step": 1, "incremental_interval_sec": 40}
    found = nominated(*free, **one_by_one)
    assert orders(found) == [("a", Create), ("b", Create)]
    assert found.status is not None and found.status["nominatedClusterNames"] == ["a", "b"]
    assert found.wake_at is not None and (found.wake_at - NOW).total_seconds() == 20
    assert check(found) == ("Pending", 'waits for quota on "a", "b"')
