"""Drains a cluster, and removes a deleted one together with everything that was created for it.

The phases of a deletion:

- Draining: no new jobs start, running jobs end or are stopped, and the lock is released. Other holders of
  quota are named in the status and waited for.
- Removing: the cluster's quota and ResourceFlavor are deleted.
- At last the finalizer is removed.

The planner reads `status.decommission` and deletes the quota and the flavor.
"""

from __future__ import annotations

from fournos.api.fournoscluster import MAX_NAMED, Drain
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import HOLDING
from fournos.engine.kube.resource import CONFIG_MAP, Key, Obj
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.decision import Absent, Decision, LiveGet, LiveList, Present
from fournos.engine.runtime.finalizer import switched
from fournos.engine.runtime.steps import Create, Patch, Step
from fournos.systems.clusters import names
from fournos.systems.clusters.context import Context
from fournos.systems.clusters.lock import release
from fournos.systems.clusters.names import DRAINING, REMOVING
from fournos.systems.clusters.quota_holders import foreign_holds, is_lock
from fournos.systems.clusters.quotas import in_use, is_managed
from fournos.systems.clusters.steps import Disconnect


def drain(ctx: Context) -> None:
    """Sets the condition Draining, and requests the shutdown of running jobs if `spec.drain` is Stop."""
    if not ctx.spec.drain and not ctx.deleting:
        if ctx.draft.reason_of("Draining"):
            ctx.draft.condition("Draining", "False", "NotAsked", "takes jobs")
        return
    running, foreign = ctx.observed.running, ctx.observed.foreign
    if not running and not foreign:
        ctx.draft.put_condition("Draining", "True", "Drained", "no job runs here, none is started")
        return
    reason, messages = "Waiting", []
    if running and ctx.spec.drain is Drain.STOP:
        for name in ctx.observed.stoppable:
            key = Key(ctx.settings.execution_namespace, name)
            ctx.steps.append(Patch(FOURNOS_JOB, key, {"spec": {"shutdown": "Stop"}}))
        reason = "Stopping"
        messages.append(f"jobs are being stopped: {_shown(running)}")
    elif running:
        many = f"{len(running)} jobs" if len(running) > 1 else "1 job"
        messages.append(f"waits for {many} to end: {_shown(running)} (spec.drain: Stop ends them)")
    if foreign:
        messages.append(
            f"waits for Workloads that are of no FournosJob, end or delete them: {_shown(foreign)}"
        )
    ctx.draft.put_condition("Draining", "True", reason, "; ".join(messages))


def _shown(listed: tuple[str, ...]) -> str:
    return ", ".join(listed[:MAX_NAMED]) + (" …" if len(listed) > MAX_NAMED else "")


def decommission(ctx: Context) -> Decision:
    """Returns the decision for a FournosCluster with a deletionTimestamp."""
    if not ctx.holds_finalizer:
        return Decision()
    state = ctx.draft.decommission
    if state == REMOVING:
        return _remove(ctx)
    drain(ctx)
    if state is None:
        ctx.draft.put(decommission=DRAINING).event("Decommission", "the cluster is taken out of service")
        return ctx.gathered()
    if ctx.observed.occupants:
        return ctx.gathered()
    release(ctx)
    if ctx.draft.lock is not None:
        return ctx.gathered()
    # Live reads, because jobs and Workloads that the cache does not show yet may hold this quota. Quota is
    # removed only after all its holders are gone.
    namespace = ctx.settings.execution_namespace
    jobs, workloads = LiveList(FOURNOS_JOB, namespace), LiveList(WORKLOAD, namespace)
    queue = LiveGet(CLUSTER_QUEUE, Key("", ctx.settings.kueue_cluster_queue_name))
    answers = ctx.facts.require(jobs, workloads, queue)
    if not all(isinstance(answer, Present | Absent) for answer in answers):
        ctx.retry = True
        return ctx.gathered()
    found, holding, queued = (answer.value if isinstance(answer, Present) else None for answer in answers)
    if any(_occupies(ctx.name, job) for job in found or ()) or any(
        ctx.name in foreign_holds(workload) for workload in holding or ()
    ):
        ctx.retry = True  # their events will reach the cache
        return ctx.gathered()
    if left := [f"{n} of {of}" for (flavor, of), n in in_use(queued).items() if n and flavor == ctx.name]:
        text = (
            f"Kueue counts {', '.join(sorted(left))} as in use; if that lasts, Workloads of other "
            "namespaces hold it: end or delete them"
        )
        ctx.draft.condition("QuotaSynced", "False", "InUse", text)
        ctx.retry = True
        return ctx.gathered()
    ctx.draft.put(decommission=REMOVING)
    return ctx.gathered()


def _occupies(cluster: str, job: Obj) -> bool:
    """True if a FournosJob, other than the lock, occupies the cluster."""
    status = job.get("status") or {}
    held = status.get("cluster") == cluster and status.get("phase") in HOLDING
    return held and not is_lock(job, cluster)


def _remove(ctx: Context) -> Decision:
    """Waits until the flavor and its quota are gone, then disconnects and removes the finalizer."""
    # Live reads, because the finalizer must stay until the API server confirms that both are gone.
    flavor, entry, removed = ctx.facts.require(
        LiveGet(RESOURCE_FLAVOR, Key("", ctx.name)),
        LiveGet(CLUSTER_QUEUE, Key("", ctx.settings.kueue_cluster_queue_name)),
        LiveGet(CONFIG_MAP, Key(ctx.settings.namespace, names.REMOVED_CONFIG_MAP)),
    )
    foreign = isinstance(flavor, Present) and not is_managed(flavor.value)
    if not foreign and not (
        isinstance(flavor, Absent)
        and (isinstance(entry, Absent) or (isinstance(entry, Present) and not _names(entry.value, ctx.name)))
    ):
        ctx.draft.condition("QuotaSynced", "False", "Removing", "its ResourceFlavor and quotas are removed")
        ctx.retry = True
        return ctx.gathered()
    last: list[Step] = []
    if ctx.observed.secret is not None:
        if not isinstance(removed, Present | Absent):
            ctx.retry = True
            return ctx.gathered()
        last += _remember(ctx, removed)
    off = ctx.own_patch(switched(ctx.cluster, names.FINALIZER, on=False))
    assert off is not None
    return Decision(steps=(*last, Disconnect(ctx.name), off))


def _remember(ctx: Context, answer: Present | Absent) -> list[Step]:
    """Records that a person deleted the FournosCluster while its Secret still exists.

    The cluster is not created again until the Secret changes.
    """
    data = {ctx.name: (ctx.secret_version or "").replace("/", ".")}
    key = Key(ctx.settings.namespace, names.REMOVED_CONFIG_MAP)
    if isinstance(answer, Absent):
        labels = {names.MANAGED_BY_LABEL: names.MANAGED_BY}
        meta = {"name": key.name, "namespace": key.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        return [Create(CONFIG_MAP, body)]
    if (answer.value.get("data") or {}).get(ctx.name) == data[ctx.name]:
        return []
    return [Patch(CONFIG_MAP, key, {"data": data})]


def _names(queue: object, flavor: str) -> bool:
    """True if any group of the ClusterQueue names the flavor."""
    assert isinstance(queue, dict)
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    return any(entry["name"] == flavor for group in groups for entry in group.get("flavors") or ())


def gone_secret(ctx: Context) -> bool:
    """True if the Secret from which this FournosCluster was discovered is not in the cache."""
    labels = ctx.cluster["metadata"].get("labels") or {}
    named = bool(ctx.spec.kubeconfig_secret)  # without a Secret's name there is nothing to look up
    return named and ctx.observed.secret is None and labels.get(names.AUTO_DISCOVERED_LABEL) == "true"
