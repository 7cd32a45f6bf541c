"""Decides the next writes for a FournosCluster. Each policy adds its part to the same pass."""

from __future__ import annotations

from datetime import datetime, timedelta

from fournos.api.fournoscluster import MAX_NAMED, Drain, KubeconfigStatus
from fournos.api.kinds import DISCOVER_ANNOTATION, FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.api.phase import HOLDING
from fournos.engine.api.values import format_time
from fournos.engine.kube.probe import Probe
from fournos.engine.kube.resource import CONFIG_MAP, Key, Obj, key_of, uid_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.queueing.observe import reserved
from fournos.engine.runtime.context import switched
from fournos.engine.runtime.decision import (
    Absent,
    Create,
    Decision,
    Delete,
    Facts,
    LiveGet,
    LiveList,
    Patch,
    Present,
    SecretShape,
    Step,
)
from fournos.engine.runtime.events import retried
from fournos.systems.clusters import build
from fournos.systems.clusters.build import DRAINING, REMOVING, Connect, Disconnect
from fournos.systems.clusters.gpus import inventory
from fournos.systems.clusters.lock import lock, release
from fournos.systems.clusters.quotas import (
    NO_QUEUE,
    PENDING,
    foreign_holds,
    is_lock,
    is_managed,
    planner_input,
    quota_synced,
)
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.clusters.status import Context, DeletedCluster, Observed

REFUSALS = frozenset({"KubeconfigRefusedError", "CredentialsError"})
BAD_CREDENTIALS = frozenset({"Unauthorized", "CertificateExpired", "TokenExpired"})
"""Reasons of a failed probe that only a new kubeconfig can fix."""
EXPIRES_SOON = timedelta(days=14)
_NO_NAME = "spec.kubeconfigSecret is not set: name the Secret that holds the cluster's kubeconfig"


def connectivity(ctx: Context) -> None:
    """Sets `status.kubeconfigStatus` and `status.connection`; opens or closes the connection."""
    secret = ctx.observed.secret
    if secret is None:
        name = ctx.spec.kubeconfig_secret
        text = f"no Secret {name} with the label {build.SECRET_SELECTOR}" if name else _NO_NAME
        _unusable(ctx, KubeconfigStatus.MISSING, "SecretMissing", text)
        return
    if not secret["hasKubeconfig"]:
        text = f"Secret {key_of(secret)} has no key kubeconfig"
        _unusable(ctx, KubeconfigStatus.INVALID, "NoKubeconfigKey", text)
        return
    _again(ctx)
    version = ctx.secret_version
    assert version is not None
    if ctx.renewing:
        return
    failure = ctx.facts.failure
    if failure and isinstance(failure.step, Connect) and failure.error in REFUSALS:
        _unusable(ctx, KubeconfigStatus.INVALID, failure.reason or "Refused", failure.message)
        return
    before = ctx.draft.connection
    if ctx.observed.connected != version:
        refused = ctx.draft.is_false("KubeconfigValid") and before.error is None
        if before.secret_version == version and refused:
            return  # this version of the Secret was refused before; only a change of the Secret can help
        ctx.steps.append(Connect(key_of(secret), ctx.name, version, before.unreachable_since))
    ctx.draft.put(connection={**ctx.draft.group("connection"), "secretVersion": version})
    probe = ctx.observed.probe if ctx.observed.connected == version else None
    # Without a new probe, the earlier result for this version stays
    if probe is not None or before.secret_version != version:
        _valid(ctx, probe)
    if probe is not None:
        _probed(ctx, probe)
    elif not ctx.draft.reason_of("Reachable"):
        ctx.draft.condition("Reachable", "Unknown", "NotProbed", "not probed yet")


def _again(ctx: Context) -> None:
    """Handles a new value of the discover annotation: reconnects, and tries a refused kubeconfig again."""
    requested = (ctx.cluster["metadata"].get("annotations") or {}).get(DISCOVER_ANNOTATION)
    if not requested or requested == ctx.draft.discover_requested:
        return
    hardware, connection = ctx.draft.group("hardware"), ctx.draft.group("connection")
    for name in ("lastDiscovery", "lastAttempt"):
        hardware.pop(name, None)
    connection.pop("secretVersion", None)
    if ctx.observed.connected is not None:
        ctx.steps.append(Disconnect(ctx.name))
        ctx.renewing = True
    ctx.draft.put(discoverRequested=requested, hardware=hardware or None, connection=connection)


def _unusable(ctx: Context, status: KubeconfigStatus, reason: str, text: str) -> None:
    """Disconnects and sets both conditions for a Secret that is missing or refused."""
    if ctx.observed.connected is not None:
        ctx.steps.append(Disconnect(ctx.name))
    ctx.draft.put_condition("KubeconfigValid", "False", reason, text)
    ctx.draft.condition("Reachable", "Unknown", reason, "without a usable kubeconfig it cannot be probed")
    version = ctx.secret_version
    ctx.draft.put(kubeconfigStatus=status.value, connection={"secretVersion": version} if version else None)


def _probed(ctx: Context, probe: Probe) -> None:
    """Writes the result of a probe to `status.connection` and the condition Reachable."""
    connection, before = ctx.draft.group("connection"), ctx.draft.connection
    if probe.certificate_expires is not None:
        connection["certificateExpires"] = format_time(probe.certificate_expires)
    else:
        connection.pop("certificateExpires", None)
    if probe.reachable:
        connection["version"] = probe.version
        connection["latencyMs"] = _steady(before.latency_ms, probe.latency_ms)
        connection.pop("error", None)
        connection.pop("unreachableSince", None)
        ctx.draft.put(kubeconfigStatus=KubeconfigStatus.VALID.value, connection=connection)
        ctx.draft.put_condition("Reachable", "True", "Reachable", f"Kubernetes {probe.version}")
        return
    since = probe.unreachable_since or before.unreachable_since or ctx.now
    tolerated_until = since + timedelta(seconds=ctx.settings.reconcile_interval_sec)
    connection["error"] = probe.error[:1024]
    connection.setdefault("unreachableSince", format_time(since))
    ctx.draft.put(connection=connection)
    bad = probe.reason in BAD_CREDENTIALS
    if ctx.draft.is_true("Reachable") and ctx.now < tolerated_until and not bad:
        # One failed probe must not close a cluster; a second failure after the interval does
        ctx.wake(tolerated_until)
        return
    ctx.draft.put(kubeconfigStatus=(KubeconfigStatus.INVALID if bad else KubeconfigStatus.UNREACHABLE).value)
    ctx.draft.put_condition("Reachable", "False", probe.reason or "Unreachable", probe.error)


def _valid(ctx: Context, probe: Probe | None) -> None:
    """Sets the condition KubeconfigValid of a kubeconfig that was accepted."""
    expires = probe.certificate_expires if probe is not None else None
    if probe is not None and not probe.reachable and probe.reason in BAD_CREDENTIALS:
        ctx.draft.put_condition("KubeconfigValid", "False", probe.reason, probe.error)
    elif expires is not None and expires - ctx.now < EXPIRES_SOON:
        text = f"the credentials expire at {format_time(expires)}: renew the Secret"
        ctx.draft.put_condition("KubeconfigValid", "True", "ExpiresSoon", text)
    else:
        ctx.wake(expires - EXPIRES_SOON if expires is not None else None)
        ctx.draft.put_condition(
            "KubeconfigValid", "True", "Accepted", "the kubeconfig is complete and safe to use"
        )


def _steady(before: int | None, now: float) -> int:
    """Returns the latency in whole milliseconds.

    The earlier value is kept unless the new one is more than twice or less than half of it, so that normal
    variation causes no status write.
    """
    value = max(1, round(now))
    if before and value <= 2 * before and before <= 2 * value:
        return before
    return value


# --- drain and removal ---------------------------------------------------------------------------------
# Drains a cluster, and removes a deleted one together with everything that was created for it.
#
# The phases of a deletion:
#
# - Draining: no new jobs start, running jobs end or are stopped, and the lock is released. Other holders of
#   quota are named in the status and waited for.
# - Removing: the cluster's quota and ResourceFlavor are deleted.
# - At last the finalizer is removed.
#
# The planner reads `status.decommission` and deletes the quota and the flavor.


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
    if left := [
        f"{n:f} of {of}" for (flavor, of), n in reserved(queued or {}).items() if n and flavor == ctx.name
    ]:
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
        LiveGet(CONFIG_MAP, Key(ctx.settings.namespace, build.REMOVED_CONFIG_MAP)),
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
    off = ctx.own_patch(switched(ctx.cluster, build.FINALIZER, on=False))
    assert off is not None
    return Decision(steps=(*last, Disconnect(ctx.name), off))


def _remember(ctx: Context, answer: Present | Absent) -> list[Step]:
    """Records that a person deleted the FournosCluster while its Secret still exists.

    The cluster is not created again until the Secret changes.
    """
    data = {ctx.name: (ctx.secret_version or "").replace("/", ".")}
    key = Key(ctx.settings.namespace, build.REMOVED_CONFIG_MAP)
    if isinstance(answer, Absent):
        labels = {build.MANAGED_BY_LABEL: build.MANAGED_BY}
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
    return named and ctx.observed.secret is None and labels.get(build.AUTO_DISCOVERED_LABEL) == "true"


# --- the decision --------------------------------------------------------------------------------------


def decide(
    observed: Observed | DeletedCluster, facts: Facts, now: datetime, *, settings: ClusterSettings
) -> Decision:
    """Returns the decision of one pass. A pure function; see `fournos.engine.runtime.decision`."""
    if isinstance(observed, DeletedCluster):
        return Decision(steps=(Disconnect(observed.key.name),))
    ctx = Context(observed, facts, now, settings)
    if facts.failure is not None and facts.failure.transient:
        return retried(facts.failure)
    if ctx.deleting:
        return decommission(ctx)
    if not ctx.holds_finalizer:
        # The finalizer is written in a pass of its own, before anything is created that it must clean up.
        claim = ctx.own_patch(switched(ctx.cluster, build.FINALIZER, on=True))
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
        if answer.value.labels.get(build.SECRET_LABEL) == "true":
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
