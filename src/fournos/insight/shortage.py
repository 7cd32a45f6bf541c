"""Explains which quota is insufficient, and which jobs hold it.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from fournos.api.phase import Cause
from fournos.api.slots import no_jobs
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.observe import covered
from fournos.insight.cohorts import LESS_USED, fair_shares, usage_orders
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts
from fournos.insight.kueue_reasons import not_counted, otherwise_counted, waits_for_quota
from fournos.insight.quota import Quota, QuotaLine, amount
from fournos.insight.values import count, hardware, name_of, spec_of
from fournos.systems.jobs.names import CLUSTER_NODE_LABEL, SLOT_RESOURCE


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
    here = () if words else facts.holders_on(quota.flavors)
    base = Explanation("", because, (), here, quota, ahead, len(facts.line), Cause.QUOTA)
    rooms = (f"{flavor} has room now: submit it with --set cluster={flavor}" for flavor in quota.elsewhere)
    elsewhere = () if words else tuple(rooms)
    if quota.never and not quota.closed and waits_for_quota(workload):
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
        return replace(base, verdict=verdict, cause=Cause.LOCK, advice=(lacks, *elsewhere))
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
            return replace(base, verdict=turn, advice=() if words else _turn(facts), cause=Cause.PRIORITY)
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
        return replace(base, verdict=text, advice=(first, *elsewhere), cause=Cause.LOCK)
    if pinned and any(spec_of(holder).get("exclusive", True) for holder in here):
        text = f"{name} waits for {pinned}, which {name_of(here[0])} has locked."
        return replace(base, verdict=text, advice=(first, *elsewhere), cause=Cause.LOCK)
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
