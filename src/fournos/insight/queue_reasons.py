"""Explains why an object of any kind waits in a Kueue queue, from facts that are already read.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.state import QueueState, view
from fournos.insight.causes import Cause
from fournos.insight.cohorts import LESS_USED, fair_shares, usage_orders
from fournos.insight.explanation import Explanation
from fournos.insight.facts import Facts
from fournos.insight.kueue_reasons import kueue_reason, not_counted, otherwise_counted, waits_for_quota
from fournos.insight.quota import Quota, amount
from fournos.insight.shortage import waits_for_turn
from fournos.insight.values import name_of, one_line, spec_of


@dataclass(frozen=True, slots=True)
class Words:
    """The advice texts for one kind."""

    unqueued: tuple[str, ...]
    """Advice while the object has no Workload."""
    uncovered: str
    """Advice if the ClusterQueue does not cover a requested resource."""
    impossible: str
    """Advice if the request exceeds the quota of every flavor."""


def in_queue(obj: Obj, workload: Obj | None, facts: Facts, words: Words) -> Explanation:
    """Explains why a suspended object waits; `facts` are those of the queue that it names."""
    if workload is None and not queue_name(obj):
        cause = Cause.SUSPENDED if spec_of(obj).get("suspend") else None
        return Explanation(f"{name_of(obj)} names no queue, so Kueue does not know it.", cause=cause)
    if kept := kept_from_quota(obj, workload, facts, (), words.unqueued):
        return kept
    assert workload is not None
    because = with_kueue(view(workload).message, ())
    return _short(name_of(obj), workload, facts.quota(workload), facts, because, words)


def kept_from_quota(
    obj: Obj, workload: Obj | None, facts: Facts, messages: tuple[str, ...], unqueued: tuple[str, ...]
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


def _short(
    name: str, workload: Obj, found: Quota, facts: Facts, because: tuple[str, ...], words: Words
) -> Explanation:
    """Explains which quota is insufficient."""
    ahead = facts.ahead(workload)
    because = (*because, *fair_shares(facts.cluster_queue, facts.local_queue))
    base = Explanation("", because, quota=found, ahead=ahead, in_line=len(facts.line), cause=Cause.QUOTA)
    if found.never and waits_for_quota(workload):
        return replace(base, verdict=otherwise_counted(name))
    if found.never:
        base = replace(base, because=(*because, *not_counted(workload)))
    if found.uncovered:
        text = f"{name} can never be admitted: no quota for {', '.join(found.uncovered)} exists."
        return replace(base, verdict=text, advice=(words.uncovered,))
    if not found.possible:
        worst = next((line for line in found.lines if not line.possible), None)
        if worst is None:
            text = (
                f"{name} can never be admitted: no flavor of the ClusterQueue has the node labels it wants."
            )
            return replace(base, verdict=text)
        text = (
            f"{name} can never be admitted: it asks for {amount(worst.asks)} of {worst.resource}, "
            f"and no flavor has more than {amount(worst.most or worst.nominal)}."
        )
        return replace(base, verdict=text, advice=(words.impossible,))
    if found.fitting:
        if turn := waits_for_turn(name, facts, ahead, "workload"):
            return replace(base, verdict=turn, cause=Cause.PRIORITY)
        text = f"{name} should be admitted any moment: {found.fitting[0]} has what it asks for."
        return replace(base, verdict=text)
    short = sorted({line.resource for line in found.lines if not line.fits})
    advice = (
        LESS_USED
        if usage_orders(facts.cluster_queue)
        else "a higher priority is served first: the label kueue.x-k8s.io/priority-class names it"
    )
    return replace(base, verdict=f"{name} waits: too much of {', '.join(short)} is in use.", advice=(advice,))


def patch_command(kind: str, obj: Obj, body: str) -> str:
    """The kubectl command that applies the merge patch `body` to the object."""
    key = key_of(obj)
    return f"kubectl patch {kind} {key.name} -n {key.namespace} --type merge -p '{body}'"


def with_kueue(message: str, messages: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the lines `messages` plus Kueue's message, unless one of them contains it already."""
    text = one_line(message)
    return messages if not text or any(text in line for line in messages) else (*messages, f"Kueue: {text}")


def queue_problem(facts: Facts) -> Explanation | None:
    """Returns the explanation if the LocalQueue or ClusterQueue itself has a problem, else None."""
    found = _queue_problem(facts)
    return replace(found, cause=Cause.QUEUE_STOPPED) if found else None


def _queue_problem(facts: Facts) -> Explanation | None:
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
