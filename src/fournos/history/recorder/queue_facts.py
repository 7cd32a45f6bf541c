"""The facts that explain why a recorded object waits, from the caches.

What the objects of a queue have in common is looked up once in a while: with thousands of them in a line, a
pass that went through the line, or through all jobs that hold a cluster, would take milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.workload import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.reviews import TtlCache
from fournos.insight.children import Children
from fournos.insight.cohorts import members, usage_orders
from fournos.insight.facts import SharedFacts, WaitFacts, Waiting, holders_among, in_line, without
from fournos.insight.source import DEFAULT_QUEUE
from fournos.insight.values import is_terminal, phase_of, spec_of

HELD: Final = "held"
"""The index of FournosJobs by the cluster that they hold."""
QUEUE: Final = "queue"
"""The index of Workloads by the LocalQueue in which they wait."""
_SHARED_FOR: Final = 5.0
"""Seconds for which the order of a queue and the holders of clusters count as known."""
_MOST: Final = 1000
"""The maximum number of queues, and of clusters, that are remembered."""


class SharedQueueFacts:
    """Returns the facts of the objects of one kind; None for one that has ended."""

    def __init__(self, resource: Resource, monotonic: Callable[[], float]) -> None:
        self._resource = resource
        self._lines: TtlCache[str, tuple[tuple[Waiting, ...], SharedFacts]] = TtlCache(
            _MOST, monotonic=monotonic
        )
        """By ClusterQueue."""
        self._holders: TtlCache[str, tuple[Obj, ...]] = TtlCache(_MOST, monotonic=monotonic)
        """By the cluster that a job names, "" for none."""

    def __call__(self, caches: Caches, obj: Obj, children: Children) -> WaitFacts | None:
        if is_terminal(obj):
            return None
        draft = WaitFacts(obj, children)
        if self._resource == FOURNOS_JOB and phase_of(obj) != "Pending":
            return draft
        workload = draft.workload
        name = str(spec_of(workload).get("queueName")) if workload else queue_name(obj) or DEFAULT_QUEUE
        local = caches[LOCAL_QUEUE].get(Key(key_of(obj).namespace, name))
        above = str(spec_of(local).get("clusterQueue") or "") if local is not None else ""
        cluster = caches[CLUSTER_QUEUE].get(Key("", above)) if above else None
        line, shared = self._line(caches, above)
        return WaitFacts(
            obj,
            children,
            name,
            local if local is not None else _missing(name),
            cluster if cluster is not None or local is None else _missing(above),
            tuple(caches[RESOURCE_FLAVOR]),
            self._holders_for(caches, obj),
            line,
            ordered=not usage_orders(cluster),
            cohort=members(cluster, caches[CLUSTER_QUEUE]) if cluster is not None else (),
            shared=shared,
        )

    def _holders_for(self, caches: Caches, obj: Obj) -> tuple[Obj, ...]:
        if self._resource != FOURNOS_JOB:
            return ()
        cluster = str(spec_of(obj).get("cluster") or "")
        holders = self._holders.get(cluster)
        if holders is None:
            holders = self._holders.put(cluster, _holders_on(caches, cluster), _SHARED_FOR)
        return without(holders, obj)

    def _line(self, caches: Caches, cluster_queue: str) -> tuple[tuple[Waiting, ...], SharedFacts]:
        line = self._lines.get(cluster_queue)
        if line is None:
            line = self._lines.put(
                cluster_queue, (_waiting_for(caches, cluster_queue), SharedFacts()), _SHARED_FOR
            )
        return line


def _holders_on(caches: Caches, cluster: str) -> tuple[Obj, ...]:
    """Returns the jobs that hold this cluster; without a name, those of all clusters."""
    flavors = [cluster] if cluster else [flavor["metadata"]["name"] for flavor in caches[RESOURCE_FLAVOR]]
    return holders_among(job for name in flavors for job in caches[FOURNOS_JOB].by(HELD, str(name)))


def _waiting_for(caches: Caches, cluster_queue: str) -> tuple[Waiting, ...]:
    queues = tuple(caches[LOCAL_QUEUE])
    names = {str(key_of(queue)) for queue in queues if spec_of(queue).get("clusterQueue") == cluster_queue}
    waiting = [workload for name in sorted(names) for workload in caches[WORKLOAD].by(QUEUE, name)]
    return in_line(waiting, queues, cluster_queue)


def _missing(name: str) -> KubeError:
    return NotFoundError(f"{name} does not exist", status=404)
