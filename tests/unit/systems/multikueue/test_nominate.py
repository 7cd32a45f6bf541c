"""Nomination, as a table: which workers are asked, and what is written while none can be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import Create, Decision, Delete, Facts, Patch
from fournos.systems.multikueue import names
from fournos.systems.multikueue.build import remote_workload
from fournos.systems.multikueue.nominate import leftover, nominate, runs
from fournos.systems.multikueue.observe import Remote, clusters_of
from fournos.systems.multikueue.remote import RemoteFailure, Send, create
from fournos.systems.multikueue.status import Context
from tests.unit.systems.multikueue.test_decide import (
    AT,
    JOB,
    KEY,
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
NO_CLUSTER = "The AdmissionCheck's MultiKueueConfig names no cluster, or does not exist"


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
        ((), "Pending", NO_CLUSTER),
        ((replace(remote("a"), listed=False),), "Pending", NO_CLUSTER),
        ((refusing("a"),), "Rejected", 'No worker can take it: "a": b is taken'),
        (
            (refusing("a"), refusing("b")),
            "Rejected",
            'No worker can take it: "a": b is taken; "b": b is taken',
        ),
        ((away("a"),), "Pending", 'No worker can be used: "a": not connected yet'),
        (
            (away("a", "its kubeconfig is not YAML", LOST), refusing("b")),
            "Pending",
            'No worker can be used: "b": b is taken; "a": its kubeconfig is not YAML',
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


def test_all_are_asked_at_once() -> None:
    free = [remote(name, there=False) for name in "abc"]
    together = nominated(*free)
    assert orders(together) == [(name, Create) for name in "abc"] and together.wake_at is None
    assert check(together) == ("Pending", 'waits for quota on "a", "b", "c"')


def test_as_many_as_kueue_takes_are_asked_in_the_order_of_the_configuration() -> None:
    listed = [f"w{number}" for number in reversed(range(21))]
    taken = clusters_of({"spec": {"clusters": listed}})
    assert taken == tuple(listed[:20])
    found = nominated(*(remote(name, there=False) for name in taken))
    assert found.status is not None and found.status["nominatedClusterNames"] == list(taken)


def test_an_error_that_a_person_can_mend_is_named_and_no_other() -> None:
    missing = RemoteFailure("NotFoundError", 'namespaces "ns" not found')
    found = nominated(replace(remote("a"), failure=missing), replace(remote("b"), failure=LOST))
    text = 'waits for quota on "a", "b"; "a" does not take it yet: namespaces "ns" not found'
    assert check(found) == ("Pending", text)


def test_equal_admissions_are_spread_evenly() -> None:
    """Admission times are whole seconds, so that equal ones are usual: no worker is preferred."""
    workers = ("worker-1", "worker-2", "worker-3")
    won = Counter[str]()
    for number in range(300):
        uid = str(uuid5(NAMESPACE_OID, str(number)))
        there = [remote(name, true("Admitted")) for name in workers]
        for one in there:
            assert one.workload is not None
            one.workload["metadata"]["annotations"][names.WORKLOAD_UID] = uid
        around = observed(workload(uid=uid, nominatedClusterNames=list(workers)), *there)
        found = nominate(Context(observed=around, facts=Facts({}), now=NOW, settings=SETTINGS))
        assert found.status is not None
        won[found.status["clusterName"]] += 1
    assert all(75 <= won[name] <= 125 for name in workers), won


def test_a_worker_gets_a_copy_that_names_it_and_the_attempt() -> None:
    own = workload()
    (found,) = nominated(remote("a", there=False)).steps
    body = remote_workload(own, worker="a", origin="here", attempt=ATTEMPT)
    assert found == Send("a", KEY, create(WORKLOAD, body))


def test_a_worker_that_is_not_asked_any_more_is_cleared_without_time_to_stop() -> None:
    """Its copy has no run yet: one is created only on the winner."""
    dropped = replace(remote("c", true("QuotaReserved")), listed=False, jobs=((TOY, JOB),))
    found = nominated(remote("a"), dropped)
    assert [(one.worker, type(one.step), one.step.resource) for one in found.steps] == [("c", Delete, TOY)]  # type: ignore[union-attr]


def test_the_winner_is_named_in_the_check() -> None:
    around = observed(workload(nominatedClusterNames=["a"]), remote("a", true("Admitted")))
    found = nominate(Context(observed=around, facts=Facts({}), now=NOW, settings=SETTINGS))
    assert check(found) == ("Pending", '"a" has admitted it; the job is on its way there')
    assert found.steps == ()


@pytest.mark.parametrize(
    ("conditions", "spec", "expected"),
    [
        ((true("Admitted"),), {}, True),
        ((true("Admitted"),), {"active": True}, True),
        ((true("Admitted"),), {"active": False}, False),
        ((true("Admitted"), true("Evicted")), {}, False),
        ((true("QuotaReserved"),), {}, False),
    ],
    ids=["admitted", "active", "inactive", "evicted", "waits for checks"],
)
def test_a_copy_runs_while_it_is_admitted_and_active(
    conditions: tuple[dict[str, Any], ...], spec: Obj, expected: bool
) -> None:
    assert runs({**twin("a", *conditions), "spec": spec}) is expected


# --- the priority of what waits there ----------------------------------------------------------------

HIGH = {"priority": 7, "priorityClassRef": {"kind": "WorkloadPriorityClass", "name": "high"}}


def prioritized(there: Remote) -> Decision:
    own = workload()
    around = observed({**own, "spec": {**own["spec"], **HIGH}}, there)
    return nominate(Context(observed=around, facts=Facts({}), now=NOW, settings=SETTINGS))


def test_the_priority_of_a_waiting_copy_follows_and_nothing_else_of_its_spec() -> None:
    (found,) = prioritized(remote("a")).steps
    body = {"metadata": {"resourceVersion": "1"}, "spec": HIGH}
    assert found == Send("a", KEY, Patch(WORKLOAD, KEY, body))


def test_a_copy_with_the_same_priority_is_not_written() -> None:
    same = {**twin("a"), "spec": {**HIGH, "active": True}}
    assert prioritized(replace(remote("a"), workload=same)).steps == ()


def test_a_priority_that_is_taken_back_is_taken_back_there() -> None:
    high = {**twin("a"), "spec": HIGH}
    (found,) = nominated(replace(remote("a"), workload=high)).steps
    assert isinstance(found, Send) and isinstance(found.step, Patch)
    assert found.step.body["spec"] == {"priority": None, "priorityClassRef": None}


def test_a_busy_worker_gets_no_second_step() -> None:
    assert prioritized(replace(remote("a"), busy=True)).steps == ()
    assert nominated(replace(remote("a", there=False), busy=True)).steps == ()


# --- what an earlier attempt has left ----------------------------------------------------------------

HELD: Obj = {"metadata": {**JOB["metadata"], "finalizers": ["x"]}}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (remote("a"), "Workload ns/w of an earlier attempt"),
        (replace(remote("a", there=False), jobs=((TOY, JOB),)), "Toy ns/toy of an earlier attempt"),
        (
            replace(remote("a", there=False), jobs=((TOY, HELD),)),
            "Toy ns/toy (its finalizers stay) of an earlier attempt",
        ),
        (replace(remote("a"), failure=LOST), "Workload ns/w of an earlier attempt: no route"),
    ],
    ids=["a Workload", "a job", "finalizers", "a failure"],
)
def test_what_an_earlier_attempt_has_left_is_named(there: Remote, expected: str) -> None:
    assert leftover(there) == f'"a" still has {expected}'
