"""What the objects of a queue have in common is looked up once in a while, not in each pass."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import uid_of
from fournos.engine.queueing.workload import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.history.recorder.queue_facts import SharedQueueFacts
from fournos.insight.children import Children
from fournos.insight.facts import WaitFacts
from tests.unit.cli.objects import cluster_queue, job, local_queue, workload
from tests.unit.history.recorder.filled_caches import FilledCaches


class Watched(FilledCaches):
    """A queue with these jobs, of which the Workloads wait."""

    def __init__(self, jobs: list[Any], workloads: list[Any]) -> None:
        super().__init__()
        self._facts = SharedQueueFacts(FOURNOS_JOB, self.monotonic)
        self.fill(FOURNOS_JOB, jobs)
        self.fill(WORKLOAD, workloads)
        self.fill(LOCAL_QUEUE, [local_queue()])
        self.fill(CLUSTER_QUEUE, [cluster_queue()])
        self.fill(RESOURCE_FLAVOR, [{"metadata": {"name": "cluster-1"}}])

    def facts(self, obj: Any, *workloads: Any) -> WaitFacts:
        facts = self._facts(self.caches, obj, Children(workloads))
        assert facts is not None
        return facts


def test_objects_of_a_queue_share_its_line_and_the_holders_for_a_while() -> None:
    first, second = job("first", "Pending"), job("second", "Pending")
    holder = job("holder", status={"cluster": "cluster-1"})
    waiting = [workload(name="w-first"), workload(name="w-second")]
    watched = Watched([first, second, holder], waiting)
    facts, others = watched.facts(first, waiting[0]), watched.facts(second, waiting[1])
    assert (len(facts.line), [uid_of(each) for each in facts.holders]) == (2, [uid_of(holder)])
    assert others.line is facts.line and others.holders is facts.holders and others.shared is facts.shared

    watched.fill(WORKLOAD, waiting[:1])
    watched.fill(FOURNOS_JOB, [first, second])
    assert watched.facts(first, waiting[0]).line is facts.line
    watched.now += 5
    later = watched.facts(first, waiting[0])
    assert (len(later.line), later.holders) == (1, ())
