"""Decides the next writes for a FournosCluster. Each policy adds its part to the same pass."""

from __future__ import annotations

from datetime import datetime

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import Key, uid_of
from fournos.engine.runtime.decision import Absent, Decision, Facts, Present, SecretShape
from fournos.engine.runtime.failures import describe, lasts
from fournos.engine.runtime.finalizer import switched
from fournos.engine.runtime.steps import Delete
from fournos.systems.clusters import names
from fournos.systems.clusters.connectivity import connectivity
from fournos.systems.clusters.context import Context, DeletedCluster, Observed
from fournos.systems.clusters.decommission import decommission, drain, gone_secret
from fournos.systems.clusters.inventory import inventory
from fournos.systems.clusters.lock import lock
from fournos.systems.clusters.planner_inputs import planner_input
from fournos.systems.clusters.quota_synced import NO_QUEUE, PENDING, quota_synced
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.clusters.steps import Disconnect


def decide(
    observed: Observed | DeletedCluster, facts: Facts, now: datetime, *, settings: ClusterSettings
) -> Decision:
    """Returns the decision of one pass. A pure function; see `fournos.engine.runtime.decision`."""
    if isinstance(observed, DeletedCluster):
        return Decision(steps=(Disconnect(observed.key.name),))
    ctx = Context(observed, facts, now, settings)
    if facts.failure is not None and facts.failure.transient:
        return _retried(ctx)
    if ctx.deleting:
        return decommission(ctx)
    if not ctx.holds_finalizer:
        # The finalizer is written in a pass of its own, before anything is created that it must clean up.
        claim = ctx.own_patch(switched(ctx.cluster, names.FINALIZER, on=True))
        return Decision(steps=(claim,) if claim else (), retry=facts.failure is not None)
    if gone_secret(ctx):
        verdict = _is_gone(ctx)
        if verdict is not None:
            return verdict
    connectivity(ctx)
    inventory(ctx)
    lock(ctx)
    drain(ctx)
    ctx.draft.put(runningJobs=len(observed.occupants))
    _quota(ctx)
    return ctx.gathered()


def _is_gone(ctx: Context) -> Decision | None:
    """Deletes a discovered FournosCluster whose Secret is gone or has lost its label.

    Returns None if a live read leaves nothing to do.
    """
    question = SecretShape(Key(ctx.settings.secrets_namespace, ctx.spec.kubeconfig_secret))
    # A live read, because a cache that lags behind must not delete a cluster.
    answer = ctx.facts.require(question)
    if isinstance(answer, Present):
        if answer.value.labels.get(names.SECRET_LABEL) == "true":
            return Decision(retry=True)  # the Secret exists; its event will reach the cache
    elif not isinstance(answer, Absent):
        return Decision(retry=True)
    ctx.draft.event("SecretGone", f"Secret {question.key} is gone or not labelled any more")
    return Decision(
        steps=(Delete(FOURNOS_CLUSTER, ctx.observed.key, uid_of(ctx.cluster)),),
        events=tuple(ctx.draft.events),
        retry=ctx.facts.failure is not None,
    )


def _quota(ctx: Context) -> None:
    """Sets QuotaSynced by comparing Kueue's objects with the state after this pass."""
    spec = {**(ctx.cluster.get("spec") or {}), **ctx.spec_changes}
    after = {**ctx.cluster, "spec": spec, "status": ctx.draft.render()}
    flavor, queue = ctx.observed.flavor, ctx.observed.queue
    sync = quota_synced(planner_input(after), flavor, queue, prefix=ctx.settings.gpu_resource_prefix)
    if sync.reason == PENDING:  # a pending quota is a normal intermediate state and needs no event
        ctx.draft.condition("QuotaSynced", sync.status, sync.reason, sync.message)
        return
    message = sync.message
    if sync.reason == NO_QUEUE:
        name = ctx.settings.kueue_cluster_queue_name
        message = f"there is no ClusterQueue {name} to give it quota (HEARTH_KUEUE_CLUSTER_QUEUE_NAME)"
    ctx.draft.put_condition("QuotaSynced", sync.status, sync.reason, message)


def _retried(ctx: Context) -> Decision:
    """Returns the decision after a transient failure; sets the condition Retrying if the failure lasts."""
    failure = ctx.facts.failure
    assert failure is not None
    if not lasts(failure):
        return Decision(retry=True)
    if not ctx.draft.is_true("Retrying") or ctx.draft.reason_of("Retrying") != failure.error:
        ctx.draft.put_condition("Retrying", "True", failure.error, describe(failure))
    return ctx.decision(retry=True)
