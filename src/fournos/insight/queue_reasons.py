"""Explains why an object of any kind waits in a Kueue queue, from facts that are already read.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from fournos.api.slots import no_jobs
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.observe import covered
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.workload import TOPOLOGY, QueueState, named_reason, view
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts
from fournos.insight.quota import (
    LESS_USED,
    Quota,
    QuotaLine,
    amount,
    fair_shares,
    is_counted,
    uncounted_devices,
    usage_orders,
)
from fournos.insight.values import count, hardware, name_of, one_line, spec_of
from fournos.systems.jobs.names import CLUSTER_NODE_LABEL, SLOT_RESOURCE


@dataclass(frozen=True, slots=True)
class KueueReason:
    """What a reason means.  `sentence` follows the name of what waits."""

    sentence: str
    advice: tuple[str, ...] = ()


_TOPOLOGY: Final = KueueReason(
    "waits for nodes that are near enough to each other: the topology that it asks for has no room now.",
    ("ask for a wider topology, or wait until pods there end",),
)
_ASK_ADMINISTRATOR: Final = ("ask an administrator to repair the queue",)

REASONS: Final[Mapping[str, KueueReason]] = {
    TOPOLOGY: _TOPOLOGY,
    "PendingDelayedTopologyRequests": _TOPOLOGY,
    "AdmissionGated": KueueReason(
        "is held back by a gate.",
        ("whoever set the annotation kueue.x-k8s.io/admission-gated-by removes it",),
    ),
    "WaitingForPreemptedWorkloads": KueueReason(
        "waits until the workloads that are preempted for it have given their quota back."
    ),
    "WaitingForPodsReady": KueueReason(
        "waits until the pods of all admitted workloads are ready (Kueue's waitForPodsReady).",
        ("see whose pods are not ready: kubectl get workloads -A",),
    ),
    "Misconfigured": KueueReason("waits for a queue that cannot be used.", _ASK_ADMINISTRATOR),
    "Suspended": KueueReason(
        "waits: its queue is stopped, or not active.",
        ("wait until an administrator sets stopPolicy to None, or repairs the queue",),
    ),
}
"""Reasons that name no quota: what is free and what is asked for does not explain them."""

_UNUSED: Final = re.compile(r"insufficient unused quota for (\S+) in flavor ([^\s,]+)")
"""Kueue's words for quota that others hold; of more than the maximum it says "insufficient quota".

It says one of them of each flavor, for the first resource that is short there.
"""


def kueue_reason(name: str, workload: Obj, because: tuple[str, ...]) -> Explanation | None:
    """Explains a waiting Workload by Kueue's own reason; None if the quota explains it."""
    queue = view(workload)
    named = named_reason(queue.reason, queue.message)
    if reason := REASONS.get(named):
        return Explanation(f"{name} {reason.sentence}", because, reason.advice)
    if devices := uncounted_devices(workload):
        text = f"{name} asks for devices (DRA: {', '.join(devices)}), whose quota only Kueue counts."
        return Explanation(text, because)
    return None


def counted_otherwise(quota: Quota, workload: Obj) -> bool:
    """True if Kueue waits for what could never be had, as the ClusterQueue and the Workload are read here."""
    unused = set(_UNUSED.findall(view(workload).message))
    if quota.uncovered:  # Kueue may be configured to leave such resources out
        return bool(unused)
    return any((line.resource, line.flavor) in unused for line in quota.lines if not line.possible)


def not_counted(workload: Obj) -> tuple[str, ...]:
    """What qualifies a verdict on quota: Kueue's Configuration is not read, only what Kueue has counted."""
    if is_counted(workload) or view(workload).message:
        return ()
    return (
        "Kueue has not counted it yet: the templates of its pods were, "
        "without excludeResourcePrefixes and transformations of Kueue's Configuration",
    )


def otherwise_counted(name: str) -> str:
    """The verdict where Kueue waits for quota, and the quota that is seen here would never be enough."""
    return f"{name} waits for quota, which Kueue counts in another way than its ClusterQueue shows."


@dataclass(frozen=True, slots=True)
class Words:
    """The advice texts for one kind other than FournosJob."""

    unqueued: tuple[str, ...]
    """Advice while the object has no Workload."""
    uncovered: str
    """Advice if the ClusterQueue does not cover a requested resource."""
    impossible: str
    """Advice if the request exceeds the quota of every flavor."""


def short(
    facts: WaitFacts, workload: Obj, because: tuple[str, ...], words: Words | None = None
) -> Explanation:
    """Explains which quota is insufficient, and which jobs hold it; `words` are those of another kind."""
    name, quota = name_of(facts.job), facts.quota(workload)
    ahead = facts.ahead(workload)
    because = (*because, *fair_shares(facts.cluster_queue, facts.local_queue))
    locked = [each for each in quota.flavors if each in facts.locks and each not in quota.fitting]
    because = (*because, *(f"the lock of {each} ends at {facts.locks[each]}" for each in locked))
    here = () if words else facts.holders_on(quota.flavors)
    base = Explanation("", because, (), here, quota, ahead, len(facts.line))
    rooms = (f"{flavor} has room now: submit it with --set cluster={flavor}" for flavor in quota.elsewhere)
    elsewhere = () if words else tuple(rooms)
    if quota.never and not quota.closed and counted_otherwise(quota, workload):
        return replace(base, verdict=otherwise_counted(name), advice=elsewhere)
    if quota.never:
        base = replace(base, because=(*because, *not_counted(workload)))
    if quota.uncovered:
        verdict = f"{name} can never be admitted: no quota for {', '.join(quota.uncovered)} exists."
        of_job = (_other_hardware(facts), f"remove it: fournos stop {name}")
        return replace(base, verdict=verdict, advice=(words.uncovered,) if words else of_job)
    if quota.closed and not (quota.lines and quota.possible):
        lacks = f"see what is missing: fournos cluster get {next(iter(quota.closed))}"
        verdict = f"{name} waits. {no_jobs(quota.closed)}."
        return replace(base, verdict=verdict, advice=(lacks, *elsewhere))
    if not quota.lines and words:
        text = f"{name} can never be admitted: no flavor of the ClusterQueue has the node labels it wants."
        return replace(base, verdict=text)
    if not quota.lines:
        where = _flavor_text(spec_of(facts.job).get("cluster"))
        return replace(
            base,
            verdict=f"{name} can never be admitted: the ClusterQueue has no flavor {where}.",
            advice=("add the cluster to the ClusterQueue (config/kueue-config.yaml)", *elsewhere),
        )
    if not quota.possible:
        verdict = _impossible(name, quota, "flavor" if words else "eligible cluster")
        less = words.impossible if words else _fewer(quota)
        return replace(base, verdict=verdict, advice=(less, *elsewhere))
    if quota.fitting:
        if turn := _waits_for_turn(name, facts, ahead, "workload" if words else "job"):
            return replace(base, verdict=turn, advice=() if words else _turn(facts))
        kueue = "if not, look at Kueue: kubectl logs -n kueue-system deploy/kueue-controller-manager"
        text = f"{name} should be admitted any moment: {quota.fitting[0]} has what it asks for."
        return replace(base, verdict=text, advice=() if words else (kueue,))
    return _used(base, facts) if words else _held(base, facts, workload, elsewhere)


def _used(base: Explanation, facts: WaitFacts) -> Explanation:
    """Explains that an object of another kind waits until quota is given back."""
    assert base.quota is not None
    resources = sorted({line.resource for line in base.quota.lines if not line.fits})
    by_priority = "a higher priority is served first: the label kueue.x-k8s.io/priority-class names it"
    advice = LESS_USED if usage_orders(facts.cluster_queue) else by_priority
    text = f"{name_of(facts.job)} waits: too much of {', '.join(resources)} is in use."
    return replace(base, verdict=text, advice=(advice,))


def _held(base: Explanation, facts: WaitFacts, workload: Obj, elsewhere: tuple[str, ...]) -> Explanation:
    """Explains that a job waits until others end."""
    job, name, here = facts.job, name_of(facts.job), base.holders
    pinned = spec_of(job).get("cluster")
    whole = spec_of(job).get("exclusive", True) or spec_of(job).get("lockOnly")
    first = f"wait for the holder: {_wait_for(here[0], namespace=key_of(workload).namespace)}" if here else ""
    if pinned and here and whole:
        text = f"{name} wants {pinned} for itself; {count(len(here), 'job')} on it must end first."
        return replace(base, verdict=text, advice=(first, *elsewhere))
    if pinned and any(spec_of(holder).get("exclusive", True) for holder in here):
        text = f"{name} waits for {pinned}, which {name_of(here[0])} has locked."
        return replace(base, verdict=text, advice=(first, *elsewhere))
    where = pinned or "any cluster"
    what = hardware(job) if hardware(job) != "-" else "a slot"
    text = f"{name} waits for {what} on {where}: too much is in use."
    return replace(base, verdict=text, advice=tuple(filter(None, (first, *elsewhere, *_turn(facts)))))


def _wait_for(holder: Obj, *, namespace: str) -> str:
    where, name = key_of(holder)
    return f"fournos wait {name}" if where == namespace else f"fournos wait -n {where} {name}"


def _flavor_text(pinned: object) -> str:
    return f"with the label {CLUSTER_NODE_LABEL}={pinned}" if pinned else "that fits"


def _waits_for_turn(name: str, facts: WaitFacts, ahead: tuple[str, ...] | None, noun: str) -> str:
    """The verdict if others come first; "" if nothing does.  `noun` is what the queue holds."""
    if ahead:
        return f"{name} waits for its turn, behind {count(len(ahead), noun)} of the queue."
    others = len(facts.line) - 1
    if facts.ordered or others < 1:
        return ""
    return f"{name} waits for its turn beside {count(others, noun)} of the queue: usage decides the order."


def _turn(facts: WaitFacts) -> tuple[str, ...]:
    if usage_orders(facts.cluster_queue):
        return (LESS_USED,)
    if spec_of(facts.job).get("priority"):
        return ()
    return ("jobs with a higher spec.priority are served first: kubectl get workloadpriorityclasses",)


def _worst(quota: Quota) -> tuple[QuotaLine, Decimal]:
    """Returns a line whose resource exceeds every flavor, and the largest quota of that resource.

    A hardware resource is preferred to the slot resource.
    """
    impossible = [line for line in quota.lines if not line.possible]
    worst = next((line for line in impossible if line.resource != SLOT_RESOURCE), impossible[0])
    return worst, max(line.most or line.nominal for line in quota.lines if line.resource == worst.resource)


def _impossible(name: str, found: Quota, which: str) -> str:
    worst, most = _worst(found)
    return (
        f"{name} can never be admitted: it asks for {amount(worst.asks)} of {worst.resource}, "
        f"and no {which} has more than {amount(most)}."
    )


def _fewer(found: Quota) -> str:
    worst, most = _worst(found)
    if worst.resource == SLOT_RESOURCE:
        return f"give the cluster {amount(worst.asks)} of {SLOT_RESOURCE} in the ClusterQueue"
    if not most:
        return "submit it again for another cluster, or for hardware that this one has"
    return f"submit it again with at most {amount(most)}: --set hardware.gpuCount={amount(most)}"


def _other_hardware(facts: WaitFacts) -> str:
    cluster_queue = facts.cluster_queue
    resources = covered(cluster_queue) if isinstance(cluster_queue, dict) else ()
    known = [resource for resource in resources if resource != SLOT_RESOURCE]
    return f"submit it again for hardware that there is: {', '.join(known) or 'none yet'}"


def in_queue(obj: Obj, workload: Obj | None, facts: WaitFacts, words: Words) -> Explanation:
    """Explains why a suspended object waits; `facts` are those of the queue that it names."""
    if workload is None and not queue_name(obj):
        return Explanation(f"{name_of(obj)} names no queue, so Kueue does not know it.")
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
        return Explanation(f"{name} is not queued yet.", messages, unqueued)
    queue = view(workload)
    because = with_kueue(queue.message, messages)
    if not queue.active:
        fix = patch_command("workload", workload, '{"spec":{"active":true}}')
        text = f"{name} was deactivated in Kueue."
        return Explanation(text, because, (f"queue it again: {fix}",))
    if queue.state is QueueState.EVICTED:
        text = f"{name} was evicted ({queue.reason}) and gives its quota back."
        return Explanation(text, because)
    if queue.state is QueueState.WAITING and is_true(workload, "QuotaReserved"):
        text = f"{name} has its quota, and waits for admission checks."
        return Explanation(text, because)
    if queue.state is QueueState.ADMITTED:
        return Explanation(f"{name} is admitted and starts any moment.", because)
    if by_kueue := kueue_reason(name, workload, because):
        return by_kueue
    if not isinstance(facts.cluster_queue, dict):
        return Explanation(f"{name} waits for Kueue to admit it.", because)
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
