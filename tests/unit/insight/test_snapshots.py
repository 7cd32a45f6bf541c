"""What is computed once for all objects of a kind, or for all jobs of a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj
from fournos.insight.caches import ObjectCaches
from fournos.insight.facts import WaitFacts, Waiting, in_line
from fournos.insight.snapshots import (
    CARRIED,
    Changed,
    Keyed,
    Lines,
    ObjectSnapshot,
    namespaces,
    valued,
    within,
)
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS, ago, job, local_queue, workload
from tests.unit.insight.test_caches import versioned


def names(objects: Iterable[Obj]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


class Counted:
    """The view of the number of objects; counts how it is made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def of(self, objects: Iterable[Obj]) -> int:
        self.made.append("of")
        return len(list(objects))

    def updated(self, value: int, changes: Iterable[Changed]) -> int:
        self.made.append("updated")
        return value + sum((new is not None) - (old is not None) for old, new in changes)


def test_a_value_is_computed_once_for_a_snapshot() -> None:
    view, snapshot = Counted(), ObjectSnapshot([job("one"), job("two")])
    assert [valued(snapshot, view), valued(snapshot, view), view.made] == [2, 2, ["of"]]
    assert [valued([job("one")], view), valued([job("one")], view), view.made] == [1, 1, ["of"] * 3]


def test_a_value_is_brought_up_to_date_by_what_has_changed() -> None:
    view, jobs = Counted(), [job(str(number)) for number in range(9)]
    first = ObjectSnapshot(jobs[:4])
    assert first.value(view) == 4
    second = ObjectSnapshot(jobs[:5], first, [(None, jobs[4])])
    third = ObjectSnapshot(jobs[:6], second, [(None, jobs[5])])  # the value of the second was never computed
    assert [third.value(view), first.value(view), view.made] == [6, 4, ["of", "updated"]]
    assert (ObjectSnapshot(jobs[:7], third, None).value(view), view.made[-1]) == (7, "of"), "unknown changes"
    many = [(one, one) for one in jobs] * CARRIED
    assert (ObjectSnapshot(jobs[:6], third, many).value(view), view.made[-1]) == (6, "of"), "too many changes"
    half = many[: CARRIED // 2 + 1]
    later = ObjectSnapshot(jobs[:6], ObjectSnapshot(jobs[:6], third, half), half)
    assert (later.value(view), view.made[-1]) == (6, "of"), "too many changes in two snapshots"


def test_parts_have_values_of_their_own() -> None:
    view = Counted()
    near, far = job("near"), job("far", namespace="far")
    first = ObjectSnapshot([near, far])
    part = first.within(frozenset({NS}))
    assert [*part] == [near]
    assert first.within(frozenset({NS})) is part
    assert (part.value(view), first.within(frozenset({NS, "far"})).value(view)) == (1, 2)
    more = job("more")
    second = ObjectSnapshot([near, far, more], first, [(None, more), (far, far)])
    assert second.within(frozenset({NS})).value(view) == 2
    assert view.made == ["of", "of", "updated"]
    assert namespaces(second) == {NS, "far"}
    assert [*within([near, far], frozenset({"far"}))] == [far]


NAMED = Keyed(lambda one: one["metadata"]["name"])
BY_PHASE = Lines(
    lambda one: one["status"].get("phase"),
    lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]),
    lambda one: (one["metadata"]["name"], one["metadata"]["creationTimestamp"]),
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcdef"), st.sampled_from(["Running", "Pending", None, "gone"]), st.integers(0, 3)
    ),
    max_size=30,
)


@given(CHANGES, st.integers(0, 30))
def test_a_value_is_the_same_whether_computed_or_brought_up_to_date(
    steps: list[tuple[str, str | None, int]], asked: int
) -> None:
    there: dict[str, Obj] = {}
    before: list[tuple[Any, Any]] = []
    snapshot = ObjectSnapshot([])
    for number, (name, phase, age) in enumerate(steps):
        old = there.pop(name, None)
        if phase != "gone":
            there[name] = job(name, phase or "", created=ago(minutes=age))
        if old is None and name not in there:
            continue
        snapshot = ObjectSnapshot(there.values(), snapshot, [(old, there.get(name))])
        if number % 3 == asked % 3:
            before.append((valued(snapshot, BY_PHASE), BY_PHASE.of(list(snapshot))))
    for view in (NAMED, BY_PHASE):
        assert snapshot.value(view) == view.of(there.values())
    assert all(value == anew for value, anew in before), "an earlier value has changed"


async def test_a_list_is_the_same_until_an_object_changes() -> None:
    api = Api(versioned(job("one", "Running", labels={"team": "a"})))
    changed = job("one", "Succeeded", labels={"team": "b"})
    changed["metadata"]["resourceVersion"] = "2"
    async with ObjectCaches(api, {FOURNOS_JOB: NS}) as caches:  # type: ignore[arg-type]
        first = (await caches.list(FOURNOS_JOB, namespace=NS, selector="team=a")).items
        assert names(first) == ["one"]
        store = caches._reflectors[FOURNOS_JOB].store
        before = caches._snapshot(FOURNOS_JOB, store)
        assert caches._snapshot(FOURNOS_JOB, store) is before
        store.observe("MODIFIED", changed)
        await asyncio.sleep(0)
        assert caches._snapshot(FOURNOS_JOB, store) is not before
        assert (await caches.list(FOURNOS_JOB, namespace=NS, selector="team=a")).items == []
        assert names((await caches.list(FOURNOS_JOB, namespace=NS, selector="team=b")).items) == ["one"]


def test_lines_of_several_queues_are_one() -> None:
    second = {**local_queue(), "metadata": {"name": "second", "namespace": NS}}
    other = workload("middle", created=ago(minutes=5))
    other["spec"]["queueName"] = "second"
    waiting = ObjectSnapshot(
        [workload("young", created=ago(minutes=1)), workload("old", created=ago(minutes=9)), other]
    )
    queues = [local_queue(), second]
    for _ in range(2):
        assert [one.key.name for one in in_line(waiting, queues, "fournos-queue")] == [
            "old",
            "middle",
            "young",
        ]
    assert [one.key.name for one in in_line(waiting, [second], "fournos-queue")] == ["middle"]


def test_the_places_of_a_line_are_those_of_the_line_that_is_asked() -> None:
    line = tuple(Waiting(Key(NS, name), 0) for name in ("a", "b", "c"))
    facts = WaitFacts(job("x"), line=line)
    assert facts.ahead(workload("c")) == (f"{NS}/a", f"{NS}/b")
    assert facts.ahead(workload("a")) == ()
    assert facts.ahead(workload("gone")) is None
    shorter = WaitFacts(job("x"), line=line[1:], shared=facts.shared)
    assert shorter.ahead(workload("c")) == (f"{NS}/b",)


def test_holders_are_those_of_the_clusters() -> None:
    one = job("one", "Running", status={"cluster": "cluster-1"})
    two = job("two", "Running", status={"cluster": "cluster-2"})
    facts = WaitFacts(job("x"), holders=(one, two))
    assert facts.holders_on(()) == (one, two)
    for _ in range(2):
        assert facts.holders_on(("cluster-2",)) == (two,)
    assert WaitFacts(job("x"), holders=(one,), shared=facts.shared).holders_on(("cluster-2",)) == ()
