"""Decides the next writes for a MiniCluster: first for Kueue, then for its own objects.

The phases are Waiting → Running → Ready → Finished. A suspended MiniCluster returns to Waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from fournos.api.kinds import MINICLUSTER
from fournos.api.pod_rights import minicluster_reach, operator_account
from fournos.engine.api.conditions import is_true
from fournos.engine.api.rules import violations
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import POD, Key, Obj, Resource, is_terminating, key_of, uid_of
from fournos.engine.queueing.job import Ended, QueueOutcome, Verdict, managed_elsewhere
from fournos.engine.queueing.managed_by import send_elsewhere
from fournos.engine.queueing.podsets import PodSetInfo, queue_name
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.workload import PodSet
from fournos.engine.runtime.decision import (
    Create,
    Decision,
    Delete,
    Facts,
    LiveGet,
    Patch,
    Present,
    Step,
    StepFailure,
    Unknown,
)
from fournos.engine.runtime.events import lasts, retried
from fournos.systems.miniclusters import names, start
from fournos.systems.miniclusters.build import index_label, pod_sets
from fournos.systems.miniclusters.finish import (
    End,
    begin_again,
    confirmed,
    due,
    end_of,
    finished,
    finishing,
    held_pods,
    remove,
)
from fournos.systems.miniclusters.health import cause, flux_failed, report_sidecars, survey
from fournos.systems.miniclusters.rules import RULES
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.spec import spec_of
from fournos.systems.miniclusters.start import claim, missing, waits
from fournos.systems.miniclusters.start import confirmed as may_start
from fournos.systems.miniclusters.status import (
    FINISHED,
    READY,
    REQUESTED,
    RUNNING,
    WAITING,
    Context,
    Observed,
    index_of,
    summary_of,
)

POLICY: Final = "fournos-minicluster-pods"
"""The admission policy of deploy/minicluster, and its binding."""
BINDING: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)


def refusal(ctx: Context) -> str:
    """Returns why the pods are not made, "" if they may be.

    Who wrote a MiniCluster is known at its admission only. So where it has fields beyond containers of the
    author's own, the policy that checks the author's rights must be older than the MiniCluster.
    """
    account = operator_account((ctx.spec.get("pod") or {}).get("serviceAccountName"))
    asked = ", ".join(minicluster_reach(ctx.spec))
    if account or not asked or ctx.settings.pod_rights == "open":
        return account
    if ctx.settings.pod_rights == "refused":
        return f"It has {asked}, which FOURNOS_MINICLUSTER_POD_RIGHTS refuses: leave it out"
    answer = ctx.facts.require(LiveGet(BINDING, Key("", POLICY)))
    if isinstance(answer, Present) and creation_time(answer.value) <= creation_time(ctx.minicluster):
        return ""
    if isinstance(answer, Unknown):
        return f"It has {asked}; whether policy {POLICY} checks that is not known: {answer.reason}"
    return (
        f"It has {asked}, and no policy has checked its author's rights: apply "
        "deploy/minicluster/policies.yaml and create it again, or leave that out"
    )


# --- the MiniCluster in its queue ----------------------------------------------------------------------
# A MiniCluster as a GenericJob of Kueue's job framework.


@dataclass(frozen=True, slots=True)
class QueuedMiniCluster:
    """Implements GenericJob and its optional capabilities for a MiniCluster."""

    obj: Obj
    settings: MiniClusterSettings
    given_back: int = 0
    """The number of pods that a resize has removed."""
    refused: bool = False
    """True if its pods may not be made. Kueue then evicts it, which releases the quota."""

    @property
    def resource(self) -> Resource:
        return MINICLUSTER

    def pod_sets(self) -> Sequence[PodSet]:
        """Returns the pod sets with the largest size.

        A resize does not change them, so it never costs the running instance its admission.
        """
        return pod_sets(self.obj, self.settings)

    def is_suspended(self) -> bool:
        return bool(self.obj["spec"].get("suspend"))

    def is_active(self) -> bool:
        """True while the claim is in the status.

        The claim is written before the first object is created and removed after the last one is gone.
        """
        status = summary_of(self.obj)
        return bool(status.maximum_size) and status.phase != "Finished"

    def finished(self) -> Ended | None:
        status = summary_of(self.obj)
        if status.phase != "Finished":
            return None
        return Ended(status.exit_code == 0, status.message or "MiniCluster finished")

    def pods_ready(self) -> bool:
        return is_true(self.obj, READY)

    def reclaimable_pods(self) -> Mapping[str, int]:
        return {names.MAIN_POD_SET: self.given_back} if self.given_back else {}

    def held_back(self) -> bool:
        return self.refused

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        """Returns the patch that resumes it.

        `infos` are not applied here; they are read from the Workload when the pods are created.
        """
        return {"spec": {"suspend": False}}

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        return {"spec": {"suspend": True}}

    def managed_by(self) -> str | None:
        value: str | None = self.obj["spec"].get("managedBy")
        return value


# --- the decision --------------------------------------------------------------------------------------

_MAY_RUN = frozenset({Verdict.NOT_QUEUED, Verdict.NESTED, Verdict.ADMITTED})
_REPORTED_AT_ONCE = frozenset({"ForeignObject", "InvalidError", "ForbiddenError", "AlreadyExistsError"})
"""Errors of a creation that last until a person changes something. They are reported at once."""


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: MiniClusterSettings) -> Decision:
    """Returns the decision of one pass. A pure function; see `fournos.engine.runtime.decision`."""
    ctx = Context(observed, facts, now, settings)
    elsewhere = managed_elsewhere(ctx.spec)
    if ctx.spec.get("managedBy") not in names.MANAGED_BY_US and not elsewhere:
        return Decision()
    if facts.failure is not None:
        return _failed(ctx, facts.failure)
    if not ctx.deleting and (problem := _unreadable(ctx)):
        return waits(ctx, "Invalid", problem, retry=False)
    # What another cluster runs is refused, too: there the operator's account makes it, whoever its author is.
    refused = "" if ctx.deleting or ctx.draft.begun or ctx.draft.finished else refusal(ctx)
    if refused and not observed.inputs.workloads:
        return waits(ctx, "NotPermitted", refused)
    back = start.given_back(ctx)
    if not (ctx.draft.phase or ctx.deleting or refused):
        sent = send_elsewhere(ctx.resource, ctx.minicluster, queue_name(ctx.minicluster), facts)
        if sent is not None:
            return sent
    queued = bool(queue_name(ctx.minicluster))
    # The finalizer comes before the Workload: its quota must not be released while pods still run.
    if queued and not ctx.deleting and not ctx.holds_finalizer:
        return Decision(steps=ctx.finalizer(on=True))
    job = QueuedMiniCluster(ctx.minicluster, settings, back, bool(refused))
    queue = reconcile(job, observed.inputs, facts, now)
    if queue.steps:
        return Decision(steps=queue.steps, events=queue.events, retry=queue.retry)
    if refused:
        return waits(ctx, "NotPermitted", refused)
    if elsewhere:
        if ctx.draft.finished and not ctx.deleting:
            return finished(ctx)
        done = ctx.deleting and queue.verdict is Verdict.ELSEWHERE
        return Decision(steps=ctx.finalizer(on=False) if done else (), retry=queue.retry)
    decision = _act(ctx, queue)
    return replace(decision, retry=True) if queue.retry else decision


def _unreadable(ctx: Context) -> str:
    """Returns why the spec cannot be used, or "" if it can.

    Types and rules are checked here too, for objects that the API server did not check.  What has begun keeps
    to the rules of its time.
    """
    try:
        spec_of(ctx.minicluster)
        broken = () if ctx.draft.begun else violations(RULES, dict(ctx.minicluster))
    except ValidationError as error:
        first = error.errors()[0]
        return f"spec.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (AttributeError, TypeError, ValueError):
        return "a field of the spec has another type than the CRD says"
    return "; ".join(map(str, broken))


def _act(ctx: Context, queue: QueueOutcome) -> Decision:
    """Returns the decision for the MiniCluster's own objects."""
    if ctx.deleting:
        return _deleted(ctx)
    if ctx.draft.finished:
        return finished(ctx)
    if ctx.draft.ended:
        return finishing(ctx)
    if ctx.suspended:
        return _suspended(ctx, queue)
    # The claim is written to the status before the first object is created.
    if not ctx.draft.begun:
        return claim(ctx) if queue.verdict in _MAY_RUN else Decision(retry=queue.retry)
    return _living(ctx)


def _deleted(ctx: Context) -> Decision:
    """Handles a MiniCluster with a deletionTimestamp.

    Without our finalizer, Kubernetes garbage-collects the objects. With the finalizer, the quota is released
    only after all pods are gone.
    """
    if not ctx.holds_finalizer:
        return Decision()
    if ctx.draft.begun and not ctx.draft.finished:
        removal = remove(ctx)
        if not removal.done:
            return Decision(steps=removal.steps, retry=removal.unsure)
        ctx.draft.unclaim().phased("Waiting", "Deleted")
        return ctx.decision()
    return Decision(steps=ctx.finalizer(on=False))


def _suspended(ctx: Context, queue: QueueOutcome) -> Decision:
    """Takes the objects down and sets the phase Waiting."""
    reason = queue.message if queue.verdict is not Verdict.NOT_QUEUED else ""
    message = reason or "Suspended"
    if not ctx.draft.begun:
        reason = queue.reason or "Suspended"
        ctx.draft.condition(REQUESTED, False, reason, message)
        ctx.draft.condition(WAITING, True, reason, message)
        for type_ in (RUNNING, READY, FINISHED):
            ctx.draft.condition(type_, False, "Suspended")
        ctx.draft.phased("Waiting", message).put(selector=names.selector(ctx.name), size=0)
        return ctx.decision()
    removal = remove(ctx)
    if not removal.done:
        if removal.steps:
            ctx.draft.event("Suspended", "Suspended: the pods are taken down")
        return ctx.decision(removal.steps, retry=removal.unsure)
    ctx.draft.unclaim()
    for type_ in (REQUESTED, RUNNING, READY):
        ctx.draft.condition(type_, False, "Suspended", message)
    ctx.draft.condition(WAITING, True, "Suspended", message).phased("Waiting", message)
    return ctx.decision()


def _living(ctx: Context) -> Decision:
    """Handles a MiniCluster that should run: its end, missing objects, its size and its health."""
    job = ctx.job
    until = None
    if job is not None:
        end = end_of(ctx, job)
        if isinstance(end, End):
            return _ended(ctx)
        again = None if end is not None else due(ctx)
        if again is not None and ctx.now >= again:
            return begin_again(ctx)
        until = end or again
    made = missing(ctx)
    if isinstance(made, Decision):
        return made
    if job is None:
        return _make(ctx, made)
    why = cause(ctx, job)
    target = start.allowed(ctx, job)
    now = int(job["spec"].get("parallelism", 1))
    # The quorum is patched first. If the lead broker restarts between the two writes, it does not wait for
    # pods that are gone.
    changes = (*start.quorum(ctx, target), *start.steps(ctx, job, target))
    if changes and target.size != now:
        ctx.draft.event("Resized", f"From {now} to {target.size} pods")
    if target.refused and target.refused not in ctx.draft.message:
        ctx.draft.event("ResizeRefused", target.refused, warning=True)
    if not start.leaving(ctx, now):
        ctx.draft.put(size=now)
    survey(ctx, job, target.refused, why.text)
    held = held_pods(ctx)
    freed = [Delete(POD, key_of(pod), uid_of(pod)) for pod, at in held if ctx.now >= at]
    for pod in (pod for pod, at in held if ctx.now >= at):
        # With the pod goes what it says.
        text = f"Pod {pod['metadata']['name']} is deleted: {flux_failed(pod, ctx.name)}"
        ctx.draft.event("FluxFailed", text, warning=True)
    wakes = [at for at in (until, why.look_at, *(at for _, at in held if ctx.now < at)) if at is not None]
    return ctx.decision((*made, *changes, *_labels(ctx), *freed), wake_at=min(wakes, default=None))


def _make(ctx: Context, steps: tuple[Step, ...]) -> Decision:
    """Creates the missing objects, once no pod of an earlier Job is left."""
    if any(index_of(pod) is not None for pod in ctx.alive):
        # These pods have the same host names as the new ones.
        ctx.draft.phased("Waiting", "Waiting for the pods of the Job before this one to end").put(ready=0)
        return ctx.decision()
    if not may_start(ctx):
        return Decision(retry=True)
    ctx.draft.phased("Waiting", "Waiting for the pods").put(ready=0)
    ctx.draft.event("Created", f"Made {', '.join(_made(step) for step in steps)}")
    return ctx.decision(steps)


def _made(step: Step) -> str:
    if isinstance(step, Create):
        return f"{step.resource.kind} {step.body['metadata']['name']}"
    return f"{step.resource.kind} {step.key.name}" if isinstance(step, Patch) else "the certificate"


def _labels(ctx: Context) -> tuple[Step, ...]:
    """Returns the patches that set `job-index` on the pods of our own Job."""
    return tuple(
        Patch(POD, key_of(pod), label)
        for pod in ctx.pods
        if not is_terminating(pod) and (label := index_label(pod)) is not None
    )


def _ended(ctx: Context) -> Decision:
    """Writes the result, after Job and pods have been read live."""
    known = confirmed(ctx)
    if not known:
        return ctx.decision(retry=True)
    job = ctx.job
    again = end_of(ctx, job) if job is not None else None
    if not isinstance(again, End):
        return Decision(retry=True)  # the live read contradicts the cache; the next pass reads both again
    report_sidecars(ctx)
    ctx.draft.end(again.exit_code, again.reason, again.message)
    return ctx.decision()


def _failed(ctx: Context, failure: StepFailure) -> Decision:
    """Reports the failure of a creation that will last; otherwise retries."""
    made = not isinstance(failure.step, Patch)
    shown = failure.error in _REPORTED_AT_ONCE and (ctx.draft.begun or lasts(failure))
    if made and shown and not ctx.deleting:
        return waits(ctx, failure.error, failure.message)
    return retried(failure)
