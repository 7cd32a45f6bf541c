"""Quota that is borrowed in a cohort, and the order of a queue where usage decides it."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts, gather, in_line
from fournos.insight.queue_reasons import Words, in_queue
from fournos.insight.queues import entries, gather_queue
from fournos.insight.quota import available, members
from fournos.insight.reasons import explain
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS, cluster_queue, job, local_queue, workload

GPU = "fournos/gpu-a100"
BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def member(name: str, nominal: int, used: int, **limits: str) -> Obj:
    found = cluster_queue({"cluster-1": {GPU: (nominal, used)}}, spec={"cohortName": "all"})
    found["metadata"] = {"name": name}
    found["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= limits
    return found


@pytest.mark.parametrize(
    ("queue", "others", "free"),
    [
        # What others leave unused can be borrowed.
        (member("q", 8, 8), [member("o", 8, 2)], 6),
        (member("q", 8, 4), [member("o", 8, 2)], 10),
        # What others have borrowed is not free, though it is nominal quota.
        (member("q", 8, 0), [member("o", 8, 12)], 4),
        (member("q", 8, 8, borrowingLimit="2"), [member("o", 8, 0)], 2),
        (member("q", 8, 9, borrowingLimit="2"), [member("o", 8, 0)], 1),
        (member("q", 8, 8), [member("o", 8, 0, lendingLimit="3")], 3),
        # What is not lent is used first.
        (member("q", 8, 8), [member("o", 8, 6, lendingLimit="3")], 2),
        (member("q", 8, 2, lendingLimit="0"), [], 6),
        (member("q", 8, 10), [], -2),
    ],
)
def test_what_a_queue_can_take_now(queue: Obj, others: list[Obj], free: int) -> None:
    assert available(queue, others) == {("cluster-1", GPU): free}


def test_the_members_of_a_cohort() -> None:
    queue, other, stranger = member("q", 8, 0), member("o", 8, 0), member("s", 8, 0)
    stranger["spec"]["cohortName"] = "another"
    assert members(queue, [queue, other, stranger]) == (other,)
    assert members(cluster_queue(), [cluster_queue(), stranger]) == ()


def world(queue: Obj, *others: Obj, waiting: tuple[Obj, ...] = (), local: Any = None) -> Api:
    spec = {"exclusive": False, "cluster": None}
    return Api(
        job("one", "Pending", spec=spec),
        workload(asks={GPU: "2"}),
        *waiting,
        queues=[local or local_queue()],
        cluster_queues=[queue, *others],
    )


async def explained(api: Api) -> tuple[Explanation, Explanation]:
    """The explanation of a FournosJob, and of an object of another kind."""
    facts = await gather(api, await api.get(FOURNOS_JOB, Key(NS, "one")))
    other = WaitFacts(
        **{name: getattr(facts, name) for name in ("job", "found", "queue_name", "local_queue")}
    )
    assert other.workload is not None
    return explain(facts, NOW), in_queue(facts.job, other.workload, facts, Words((), "", ""))


async def test_a_job_for_which_its_queue_can_borrow_does_not_wait_for_quota() -> None:
    full = member("fournos-queue", 8, 8)
    for found in await explained(world(full, member("other", 8, 2))):
        assert "should be admitted any moment" in found.verdict
        assert found.quota is not None and found.quota.lines[0].free == 6
    for found in await explained(world(full, member("other", 8, 8))):
        assert "too much" in found.verdict


async def test_where_usage_orders_a_queue_no_place_is_claimed() -> None:
    queue = cluster_queue({"cluster-1": {GPU: (8, 0)}}, spec=BY_USAGE)
    usage = {"admissionFairSharingStatus": {"consumedResources": {GPU: "12"}}}
    local = {**local_queue(), "status": {"fairSharing": usage}}
    api = world(queue, waiting=(workload("zero", priority=9),), local=local)
    for found in await explained(api):
        assert found.ahead is None
        assert "usage decides the order" in found.verdict and "behind" not in found.verdict
        assert any(f"has used 12 of {GPU}" in line for line in found.because)
        assert not any("priority is served first" in line for line in found.advice)
    queued = await gather_queue(api, NS, "fournos-queue")
    assert {entry.place for entry in entries(queued, NOW)} == {0}


async def test_where_usage_orders_a_full_queue_a_priority_is_no_advice() -> None:
    queue = cluster_queue({"cluster-1": {GPU: (8, 8)}}, spec=BY_USAGE)
    for found in await explained(world(queue, waiting=(workload("zero", priority=9),))):
        assert "too much" in found.verdict
        assert any("a LocalQueue that has used less" in line for line in found.advice)


async def test_the_share_of_a_cohort_is_named() -> None:
    queue = member("fournos-queue", 8, 8)
    queue["spec"]["fairSharing"] = {"weight": "2"}
    queue["status"]["fairSharing"] = {"weightedShare": 125}
    for found in await explained(world(queue)):
        assert any("share 125 (weight 2)" in line for line in found.because)
    del queue["status"]["fairSharing"]
    for found in await explained(world(queue)):
        assert not any("share" in line for line in found.because)


def test_a_boost_adds_to_the_priority() -> None:
    def boosted(name: str, priority: int, boost: str) -> Obj:
        found = workload(name, priority=priority)
        found["metadata"]["annotations"] = {"kueue.x-k8s.io/priority-boost": boost, "other": "x"}
        return found

    given = [workload("plain", priority=5), boosted("up", 1, "9"), boosted("down", 7, "-3")]
    given.append(boosted("wrong", 6, "1.5"))
    line = in_line(given, [local_queue()], "fournos-queue")
    assert [(one.key.name, one.priority) for one in line] == [
        ("up", 10),
        ("wrong", 6),
        ("plain", 5),
        ("down", 4),
    ]
