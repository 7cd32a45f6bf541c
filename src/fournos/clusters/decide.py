"""What happens next to a FournosCluster: every policy adds its part to one pass."""

from __future__ import annotations

from datetime import datetime, timedelta

from fournos.clusters import names
from fournos.clusters.connectivity import connectivity
from fournos.clusters.context import Context, Observed
from fournos.clusters.decommission import decommission, drain, gone_secret
from fournos.clusters.inventory import inventory
from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.clusters.lock import lock
from fournos.clusters.members import member_of
from fournos.clusters.planner import NO_QUEUE
from fournos.clusters.settings import ClusterSettings
from fournos.kube.resource import Key, uid_of
from fournos.runtime.decision import Absent, Decision, Facts, Need, Present, SecretShape
from fournos.runtime.failures import describe, lasts
from fournos.runtime.finalizer import switched
from fournos.runtime.steps import Delete

_LOOK_AGAIN = timedelta(seconds=1)
"""After a pass whose findings change the plan, should that change nothing in Kueue."""


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: ClusterSettings) -> Decision | Need:
    """Pure; see `fournos.runtime.decision`."""
    ctx = Context(observed, facts, now, settings)
    if facts.failure is not None and facts.failure.transient:
        return _troubled(ctx)
    if ctx.draft.is_true("Retrying"):
        ctx.draft.condition("Retrying", "False", "Recovered", "")
    if ctx.deleting:
        return decommission(ctx)
    if not ctx.holds_finalizer:
        claim = ctx.own_patch(switched(ctx.cluster, names.FINALIZER, on=True))
        return Decision(steps=(claim,) if claim else (), retry=facts.failure is not None)
    if gone_secret(ctx):
        verdict = _is_gone(ctx)
        if verdict is not None:
            return verdict
    connectivity(ctx)
    inventory(ctx)
    need = lock(ctx)
    if need is not None:
        return need
    drain(ctx)
    ctx.draft.put(runningJobs=len(observed.occupants))
    _quota(ctx)
    return ctx.decision()


def _is_gone(ctx: Context) -> Need | Decision | None:
    """A Secret that is gone or lost its label takes the FournosCluster that it brought with it."""
    question = SecretShape(Key(ctx.settings.secrets_namespace, ctx.spec.kubeconfig_secret))
    if need := ctx.facts.ask([question]):
        return need
    answer = ctx.facts.answer(question)
    if isinstance(answer, Present):
        if answer.value.labels.get(names.SECRET_LABEL) == "true":
            return Decision(retry=True)  # it is there, the cache is about to show it
    elif not isinstance(answer, Absent):
        return Decision(retry=True)
    ctx.draft.note("SecretGone", f"Secret {question.key} is gone or not labelled any more")
    return Decision(
        steps=(Delete(FOURNOS_CLUSTER, ctx.observed.key, uid_of(ctx.cluster)),),
        notes=tuple(ctx.draft.notes),
        retry=ctx.facts.failure is not None,
    )


def _quota(ctx: Context) -> None:
    sync = ctx.observed.sync
    if sync is None:
        ctx.draft.condition("QuotaSynced", "Unknown", "Pending", "not planned yet")
        return
    spec = {**ctx.cluster["spec"], **ctx.spec_changes}
    after = {**ctx.cluster, "spec": spec, "status": ctx.draft.render()}
    if member_of(after) != member_of(ctx.cluster):
        # The plan is that of what was known before this pass; what it finds is planned after it.
        ctx.draft.condition("QuotaSynced", "False", "Pending", "the ClusterQueue is about to be changed")
        ctx.wake(ctx.now + _LOOK_AGAIN)
        return
    if sync.reason == "Pending":  # no news
        ctx.draft.condition("QuotaSynced", sync.status, sync.reason, sync.message)
        return
    message = sync.message
    if sync.reason == NO_QUEUE:
        name = ctx.settings.kueue_cluster_queue_name
        message = f"there is no ClusterQueue {name} to give it quota (HEARTH_KUEUE_CLUSTER_QUEUE_NAME)"
    ctx.draft.tell("QuotaSynced", sync.status, sync.reason, message)


def _troubled(ctx: Context) -> Decision:
    failure = ctx.facts.failure
    assert failure is not None
    if not lasts(failure):
        return Decision(retry=True)
    if not ctx.draft.is_true("Retrying") or ctx.draft.reason_of("Retrying") != failure.error:
        ctx.draft.tell("Retrying", "True", failure.error, describe(failure))
    return Decision(status=ctx.draft.render(), notes=tuple(ctx.draft.notes), retry=True)
