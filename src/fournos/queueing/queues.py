"""What a queue leads to, asked live by admission webhooks: its ClusterQueue, and whether its jobs run
elsewhere.

LocalQueue → ClusterQueue → AdmissionChecks → controllerName: Kueue's own rule for defaulting `managedBy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fournos.kube.resource import Key, Obj
from fournos.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE
from fournos.queueing.managed import MULTIKUEUE, MULTIKUEUE_ADAPTER
from fournos.runtime.decision import Facts, LiveGet, Present, Unknown

DISPATCHERS: Final = frozenset({MULTIKUEUE, MULTIKUEUE_ADAPTER})
"""Controllers of AdmissionChecks that run jobs on other clusters: Kueue's, and ours."""


def queue_question(namespace: str, queue: str) -> LiveGet:
    """The first one that `cluster_queue_of` asks."""
    return LiveGet(LOCAL_QUEUE, Key(namespace, queue))


def cluster_queue_of(namespace: str, queue: str, facts: Facts) -> Obj | Unknown | None:
    """The ClusterQueue behind a LocalQueue; None: one of them is not there."""
    local = _object(queue_question(namespace, queue), facts)
    if local is None or isinstance(local, Unknown):
        return local
    return _object(LiveGet(CLUSTER_QUEUE, Key("", str(local["spec"]["clusterQueue"]))), facts)


def check_questions(cluster_queue: Obj) -> tuple[LiveGet, ...]:
    """For all of its admission checks: what `dispatches` asks."""
    return tuple(LiveGet(ADMISSION_CHECK, Key("", name)) for name in _checks(cluster_queue))


def dispatches(cluster_queue: Obj, facts: Facts) -> bool | Unknown:
    """Whether a job of this queue runs on another cluster."""
    for answer in facts.require_all(check_questions(cluster_queue)):
        if isinstance(answer, Unknown):
            return answer
        if isinstance(answer, Present) and answer.value["spec"].get("controllerName") in DISPATCHERS:
            return True
    return False


def leads_elsewhere(namespace: str, queue: str, facts: Facts) -> bool | Unknown:
    """Whether the jobs of a LocalQueue run on other clusters; not while its ClusterQueue is not there."""
    behind = cluster_queue_of(namespace, queue, facts)
    if behind is None or isinstance(behind, Unknown):
        return False if behind is None else behind
    return dispatches(behind, facts)


def _checks(cluster_queue: Obj) -> Iterator[str]:
    strategy = cluster_queue["spec"].get("admissionChecksStrategy") or {}
    yield from (str(one["name"]) for one in strategy.get("admissionChecks") or ())


def _object(question: LiveGet, facts: Facts) -> Obj | Unknown | None:
    answer = facts.require(question)
    if isinstance(answer, Unknown):
        return answer
    return answer.value if isinstance(answer, Present) else None
