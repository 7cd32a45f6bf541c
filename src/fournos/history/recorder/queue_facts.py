"""The facts that explain why a recorded object waits, from the caches.

What the objects of a queue have in common is looked up once in a while: with thousands of them in a line, a
pass that went through the line, or through all jobs that hold a cluster, would take milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.runtime.controller import Caches
from fournos.insight.children import Children
from fournos.insight.cohorts import members, usage_orders
from fournos.insight.facts import Facts, SharedFacts, Waiting, holders_among, in_line, without
from fournos.insight.source import DEFAULT_QUEUE
from fournos.insight.values import is_terminal, phase_of, spec_of

HELD: Final = "held"
"""The index of FournosJobs by the cluster that they hold."""
QUEUE: Final = "queue"
"""The index of Workloads by the LocalQueue in which they wait."""
_SHARED_AGE: Final = timedelta(seconds=5)
"""How long the order of a queue and the holders of clusters count as known."""

_Value = TypeVar("_Value")


class QueueFacts:
    """Returns the facts of the objects of one kind; None for one that has ended."""

    def __init__(self, resource: Resource, now: Callable[[], datetime]) -> None:
        self._resource = resource
        self._now = now
        self._known: dict[Hashable, tuple[datetime, Any]] = {}
        self._shared: dict[str, SharedFacts] = {}
        """By ClusterQueue."""

    def __call__(self, caches: Caches, obj: Obj, children: Children) -> Facts | None:
        if is_terminal(obj):
            return None
        draft = Facts(obj, children)
        if self._resource == FOURNOS_JOB and phase_of(obj) != "Pending":
            return draft
        workload = draft.workload
        name = str(spec_of(workload).get("queueName")) if workload else queue_name(obj) or DEFAULT_QUEUE
        local = caches[LOCAL_QUEUE].get(Key(key_of(obj).namespace, name))
        above = str(spec_of(local).get("clusterQueue") or "") if local is not None else ""
        cluster = caches[CLUSTER_QUEUE].get(Key("", above)) if above else None
        return Facts(
            obj,
            children,
            name,
            local if local is not None else _missing(name),
            cluster if cluster is not None or local is None else _missing(above),
            tuple(caches[RESOURCE_FLAVOR]),
            self._holders(caches, obj),
            self._recent((QUEUE, above), lambda: _line(caches, above)),
            ordered=not usage_orders(cluster),
            cohort=members(cluster, caches[CLUSTER_QUEUE]) if cluster is not None else (),
            shared=self._shared.setdefault(above, SharedFacts()),
        )

    def _holders(self, caches: Caches, obj: Obj) -> tuple[Obj, ...]:
        if self._resource != FOURNOS_JOB:
            return ()
        cluster = str(spec_of(obj).get("cluster") or "")
        return without(self._recent((HELD, cluster), lambda: _holders_on(caches, cluster)), obj)

    def _recent(self, key: Hashable, look_up: Callable[[], _Value]) -> _Value:
        now, known = self._now(), self._known.get(key)
        if known is None or not timedelta(0) <= now - known[0] < _SHARED_AGE:
            known = self._known[key] = now, look_up()
        value: _Value = known[1]
        return value


def _holders_on(caches: Caches, cluster: str) -> tuple[Obj, ...]:
    """Returns the jobs that hold this cluster; without a name, those of all clusters."""
    flavors = [cluster] if cluster else [flavor["metadata"]["name"] for flavor in caches[RESOURCE_FLAVOR]]
    return holders_among(job for name in flavors for job in caches[FOURNOS_JOB].by(HELD, str(name)))


def _line(caches: Caches, cluster_queue: str) -> tuple[Waiting, ...]:
    queues = tuple(caches[LOCAL_QUEUE])
    names = {str(key_of(queue)) for queue in queues if spec_of(queue).get("clusterQueue") == cluster_queue}
    waiting = [workload for name in sorted(names) for workload in caches[WORKLOAD].by(QUEUE, name)]
    return in_line(waiting, queues, cluster_queue)


def _missing(name: str) -> KubeError:
    return NotFoundError(f"{name} does not exist", status=404)
