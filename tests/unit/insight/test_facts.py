"""What is known once for all jobs of a queue: the line and the holders of clusters."""

from __future__ import annotations

from dataclasses import replace

from fournos.engine.kube.resource import Key
from fournos.insight.facts import Line, WaitFacts, Waiting, in_line
from tests.unit.cli.objects import NS, ago, job, local_queue, workload


def test_lines_of_several_queues_are_one() -> None:
    second = {**local_queue(), "metadata": {"name": "second", "namespace": NS}}
    other = workload("middle", created=ago(minutes=5))
    other["spec"]["queueName"] = "second"
    waiting = [workload("young", created=ago(minutes=1)), workload("old", created=ago(minutes=9)), other]
    queues = [local_queue(), second]
    assert [one.key.name for one in in_line(waiting, queues, "fournos-queue")] == ["old", "middle", "young"]
    assert [one.key.name for one in in_line(waiting, [second], "fournos-queue")] == ["middle"]


def test_who_is_ahead_stands_before_it_in_the_line() -> None:
    line = Line(Waiting(Key(NS, name), 0) for name in ("a", "b", "c"))
    facts = WaitFacts(job("x"), line=line)
    assert facts.ahead(workload("c")) == (f"{NS}/a", f"{NS}/b")
    assert facts.ahead(workload("a")) == ()
    assert facts.ahead(workload("gone")) is None
    assert replace(facts, ordered=False).ahead(workload("a")) is None


def test_holders_are_those_of_the_clusters() -> None:
    one = job("one", "Running", status={"cluster": "cluster-1"})
    two = job("two", "Running", status={"cluster": "cluster-2"})
    facts = WaitFacts(job("x"), holders=(one, two))
    assert facts.holders_on(()) == (one, two)
    assert facts.holders_on(("cluster-2",)) == (two,)
