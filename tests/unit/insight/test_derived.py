"""What is computed once for all objects of a kind, or for all jobs of a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fournos.api.kinds import FOURNOS_JOB
from fournos.insight.caches import Caches
from fournos.insight.facts import Facts, Waiting, in_line
from fournos.insight.source import Snapshot, derived
from fournos.kube.resource import Key, Obj
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS, ago, job, local_queue, workload
from tests.unit.insight.test_caches import versioned


def names(objects: Iterable[Obj]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


def test_a_snapshot_keeps_what_was_computed() -> None:
    counted: list[int] = []

    def number(objects: Iterable[Obj]) -> int:
        counted.append(1)
        return len(list(objects))

    snapshot = Snapshot([job("one"), job("two")])
    assert [derived(snapshot, number), derived(snapshot, number), len(counted)] == [2, 2, 1]
    assert [derived([job("one")], number), derived([job("one")], number), len(counted)] == [1, 1, 3]


async def test_a_list_is_the_same_until_an_object_changes() -> None:
    api = Api(versioned(job("one", "Running", labels={"team": "a"})))
    changed = job("one", "Succeeded", labels={"team": "b"})
    changed["metadata"]["resourceVersion"] = "2"
    async with Caches(api, {FOURNOS_JOB: NS}) as caches:  # type: ignore[arg-type]
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
    waiting = Snapshot(
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
    facts = Facts(job("x"), line=line)
    assert facts.ahead(workload("c")) == (f"{NS}/a", f"{NS}/b")
    assert facts.ahead(workload("a")) == ()
    assert facts.ahead(workload("gone")) is None
    shorter = Facts(job("x"), line=line[1:], shared=facts.shared)
    assert shorter.ahead(workload("c")) == (f"{NS}/b",)


def test_holders_are_those_of_the_clusters() -> None:
    one = job("one", "Running", status={"cluster": "cluster-1"})
    two = job("two", "Running", status={"cluster": "cluster-2"})
    facts = Facts(job("x"), holders=(one, two))
    assert facts.holders_on(()) == (one, two)
    for _ in range(2):
        assert facts.holders_on(("cluster-2",)) == (two,)
    assert Facts(job("x"), holders=(one,), shared=facts.shared).holders_on(("cluster-2",)) == ()
