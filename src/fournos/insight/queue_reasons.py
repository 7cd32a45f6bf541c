"""Explains why an object of any kind waits in a Kueue queue, from facts that are already read.  Pure."""

from __future__ import annotations

from dataclasses import replace

from fournos.api.phase import Cause
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.workload import QueueState, view
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts
from fournos.insight.kueue_reasons import kueue_reason
from fournos.insight.shortage import Words as Words
from fournos.insight.shortage import short
from fournos.insight.values import name_of, one_line, spec_of


def in_queue(obj: Obj, workload: Obj | None, facts: WaitFacts, words: Words) -> Explanation:
    """Explains why a suspended object waits; `facts` are those of the queue that it names."""
    if workload is None and not queue_name(obj):
        cause = Cause.SUSPENDED if spec_of(obj).get("suspend") else None
        return Explanation(f"{name_of(obj)} names no queue, so Kueue does not know it.", cause=cause)
    if kept := kept_from_quota(obj, workload, facts, (), words.unqueued):
        return kept
    assert workload is not None
    return short(facts, workload, with_kueue(view(workload).message, ()), words)


def kept_from_quota(
    obj: Obj, workload: Obj | None, facts: WaitFacts, messages: tuple[str, ...], unqueued: tuple[str, ...]
) -> Explanation | None:
    """Explains why a queued object waits, whatever quota is free; None if the quota explains it.

    `messages` are those of its own status, `unqueued` is the advice while it has no Workload.
    """
    name = name_of(obj)
    if broken := queue_problem(facts):
        return replace(broken, because=(*broken.because, *messages))
    if workload is None:
        return Explanation(f"{name} is not queued yet.", messages, unqueued, cause=Cause.OPERATOR)
    queue = view(workload)
    because = with_kueue(queue.message, messages)
    if not queue.active:
        fix = patch_command("workload", workload, '{"spec":{"active":true}}')
        text = f"{name} was deactivated in Kueue."
        return Explanation(text, because, (f"queue it again: {fix}",), cause=Cause.SUSPENDED)
    if queue.state is QueueState.EVICTED:
        text = f"{name} was evicted ({queue.reason}) and gives its quota back."
        return Explanation(text, because, cause=Cause.QUOTA)
    if queue.state is QueueState.WAITING and is_true(workload, "QuotaReserved"):
        text = f"{name} has its quota, and waits for admission checks."
        return Explanation(text, because, cause=Cause.ADMISSION_CHECK)
    if queue.state is QueueState.ADMITTED:
        return Explanation(f"{name} is admitted and starts any moment.", because, cause=Cause.DISPATCH)
    if by_kueue := kueue_reason(name, workload, because):
        return by_kueue
    if not isinstance(facts.cluster_queue, dict):
        return Explanation(f"{name} waits for Kueue to admit it.", because, cause=Cause.UNKNOWN)
    return None


def patch_command(kind: str, obj: Obj, body: str) -> str:
    """The kubectl command that applies the merge patch `body` to the object."""
    key = key_of(obj)
    return f"kubectl patch {kind} {key.name} -n {key.namespace} --type merge -p '{body}'"


def with_kueue(message: str, messages: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the lines `messages` plus Kueue's message, unless one of them contains it already."""
    text = one_line(message)
    return messages if not text or any(text in line for line in messages) else (*messages, f"Kueue: {text}")


def queue_problem(facts: WaitFacts) -> Explanation | None:
    """Returns the explanation if the LocalQueue or ClusterQueue itself has a problem, else None."""
    found = _queue_problem(facts)
    return replace(found, cause=Cause.QUEUE_STOPPED) if found else None


def _queue_problem(facts: WaitFacts) -> Explanation | None:
    name, namespace = name_of(facts.job), facts.job["metadata"]["namespace"]
    local, cluster = facts.local_queue, facts.cluster_queue
    match local:
        case NoSuchResourceError():
            return Explanation(
                f"{name} waits for Kueue, which is not installed.",
                advice=("ask an administrator to install Kueue",),
            )
        case NotFoundError():
            return Explanation(
                f"{name} waits for LocalQueue {facts.queue_name}, which namespace {namespace} does not have.",
                advice=(
                    f"create it by kubectl apply, as the one in manifests/deployment.yaml (-n {namespace})",
                    f"and let the namespace in: kubectl label ns/{namespace} fournos.dev/queue-access=true",
                ),
            )
        case ForbiddenError():
            return None
    above = str(spec_of(local).get("clusterQueue")) if isinstance(local, dict) else ""
    if isinstance(cluster, NotFoundError):
        return Explanation(
            f"{name} waits for ClusterQueue {above}, which does not exist.",
            advice=("create it: kubectl apply -f config/kueue-config.yaml",),
        )
    for kind, queue in (("ClusterQueue", cluster), ("LocalQueue", local)):
        if not isinstance(queue, dict):
            continue
        policy = spec_of(queue).get("stopPolicy") or "None"
        if policy != "None":
            return Explanation(
                f"{name} waits: {kind} {name_of(queue)} is stopped (stopPolicy {policy}).",
                advice=("wait until an administrator sets stopPolicy to None",),
            )
        active = condition(queue, "Active") or {}
        if active.get("status") == "False":
            return Explanation(
                f"{name} waits: {kind} {name_of(queue)} is not active.",
                (f"{active.get('reason')}: {one_line(active.get('message'))}",),
                ("ask an administrator to repair the queue",),
            )
    return None
