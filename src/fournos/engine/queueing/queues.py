"""Live reads of a queue for admission webhooks: its ClusterQueue, and whether its jobs run on other clusters.

LocalQueue → ClusterQueue → AdmissionChecks → controllerName: Kueue's own rule for the default of `managedBy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE
from fournos.engine.queueing.managed import MULTIKUEUE, MULTIKUEUE_ADAPTER
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown

DISPATCHERS: Final = frozenset({MULTIKUEUE, MULTIKUEUE_ADAPTER})
"""Controllers of AdmissionChecks that dispatch jobs to other clusters: Kueue's and ours."""


def queue_question(namespace: str, queue: str) -> LiveGet:
    """Returns the first question of `cluster_queue_of`."""
    return LiveGet(LOCAL_QUEUE, Key(namespace, queue))


def cluster_queue_of(namespace: str, queue: str, facts: Facts) -> Obj | Unknown | None:
    """Returns the ClusterQueue of a LocalQueue; None if one of them does not exist."""
    local = _object(queue_question(namespace, queue), facts)
    if local is None or isinstance(local, Unknown):
        return local
    return _object(LiveGet(CLUSTER_QUEUE, Key("", str(local["spec"]["clusterQueue"]))), facts)


def check_questions(cluster_queue: Obj) -> tuple[LiveGet, ...]:
    """Returns the questions of `dispatches`: all admission checks of the ClusterQueue."""
    return tuple(LiveGet(ADMISSION_CHECK, Key("", name)) for name in _checks(cluster_queue))


def dispatches(cluster_queue: Obj, facts: Facts) -> bool | Unknown:
    """True if the jobs of this ClusterQueue run on other clusters."""
    for answer in facts.require_all(check_questions(cluster_queue)):
        if isinstance(answer, Unknown):
            return answer
        if isinstance(answer, Present) and answer.value["spec"].get("controllerName") in DISPATCHERS:
            return True
    return False


def leads_elsewhere(namespace: str, queue: str, facts: Facts) -> bool | Unknown:
    """True if the jobs of a LocalQueue run on other clusters; False while its ClusterQueue does not exist."""
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
