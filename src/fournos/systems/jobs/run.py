"""The Admitted and Running phases: copies Secrets, creates the PipelineRun, follows and cancels it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.api.phase import TERMINAL
from fournos.engine.api.values import creation_time, parse_time
from fournos.engine.kube.resource import POD, Key, Obj, is_terminating, key_of, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.report import pods_ready_patch
from fournos.engine.runtime.context import holds, switched
from fournos.engine.runtime.decision import (
    Absent,
    CopySecret,
    Create,
    Decision,
    Delete,
    LiveGet,
    LiveList,
    LogTail,
    Patch,
    Present,
    SecretShape,
    Step,
    StepFailure,
    Unknown,
)
from fournos.systems.jobs import build, names
from fournos.systems.jobs.finish import fail, fail_attempt, finish
from fournos.systems.jobs.pending import wait, wait_if_curable
from fournos.systems.jobs.rules import params_problem
from fournos.systems.jobs.settings import secret_consumer
from fournos.systems.jobs.status import Context, run_ended, run_succeeded, succeeded_condition

# --- the finalizer of a run ----------------------------------------------------------------------------
# A pruner may delete a PipelineRun as soon as it has ended, also while the operator is away.  Its finalizer
# keeps it until its end is in the status of the job.  A job has a finalizer itself while a run of it has one.


def let_go(runs: Iterable[Obj]) -> tuple[Patch, ...]:
    """Returns the patches that take our finalizer off these PipelineRuns."""
    return tuple(
        Patch(PIPELINE_RUN, key_of(run), {"metadata": switched(run, names.RUN_FINALIZER, on=False)})
        for run in runs
        if holds(run, names.RUN_FINALIZER)
    )


def recorded_runs(ctx: Context) -> list[Obj]:
    """Returns the runs whose end is in the status as it is stored, and those that will have no end.

    Tekton leaves a run alone that is deleted before its end: it is gone as soon as nothing holds it.
    """
    status = ctx.job.get("status") or {}
    ended = {one.get("pipelineRun") for one in status.get("attempts") or () if one.get("outcome")}
    return [
        run
        for run in ctx.observed.runs
        if status.get("phase") in TERMINAL
        or run["metadata"]["name"] in ended
        or (is_terminating(run) and not run_ended(run))
    ]


# --- cancellation --------------------------------------------------------------------------------------
# A graceful stop (CancelledRunFinally) lets Tekton run finally tasks; an immediate one (Cancelled) does not.
# Each stage has a time limit.  After the last one the PipelineRun and its pods are deleted.  A run has ended
# only when none of its pods runs any more, and quota is released only after `ended` is true.

GRACEFUL, IMMEDIATE = "CancelledRunFinally", "Cancelled"
_TAKEN_UP_WITHIN = timedelta(seconds=5)
"""How long after its creation a run may be without a status before it is cancelled nevertheless.

While Tekton creates the TaskRuns of a run, a cancellation may miss them: Tekton then ends the run, and its
pods go on until they end by themselves.
"""
_PODS_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The progress of a cancellation.

    `steps` are the next writes.  `wake_at` is the time of the next stage.  `retry`
    requests another pass with backoff.
    """

    ended: bool
    steps: tuple[Step, ...] = ()
    message: str = ""
    wake_at: datetime | None = None
    retry: bool = False


def end_run(ctx: Context, run_name: str, *, since: datetime, graceful: bool, grace: float) -> Cancellation:
    """Returns the next step of the cancellation.

    `since` is the time at which the end was requested.  `grace` is in seconds.
    """
    immediate_at = since + timedelta(seconds=grace) if graceful else since
    force_at = immediate_at + timedelta(seconds=ctx.settings.terminate_grace_sec)
    run = next((r for r in ctx.observed.runs if r["metadata"]["name"] == run_name), None)
    # A missing run counts only if a live read confirms it: the cache may not show
    # a run that was just created.
    unseen = LiveGet(PIPELINE_RUN, Key(ctx.namespace, run_name))
    if run is None and not isinstance(ctx.facts.require(unseen), Absent):
        return Cancellation(ended=False, message="waiting to see the PipelineRun", retry=True)
    if run is None or run_ended(run):
        return pods_gone(ctx, run_name, force_at=force_at)
    if ctx.now >= force_at:
        return Cancellation(
            ended=False,
            steps=(*let_go((run,)), Delete(PIPELINE_RUN, key_of(run), uid_of(run))),
            message=f"PipelineRun {run_name} did not stop in time, deleting it",
            retry=True,
        )
    taken_up_by = creation_time(run) + _TAKEN_UP_WITHIN
    if not run.get("status") and ctx.now < taken_up_by:
        message = f"waiting for Tekton to take up PipelineRun {run_name}"
        return Cancellation(ended=False, message=message, wake_at=taken_up_by)
    stop_value = GRACEFUL if ctx.now < immediate_at else IMMEDIATE
    requested = (run.get("spec") or {}).get("status")
    steps = () if requested in (stop_value, IMMEDIATE) else (_cancel(run, stop_value),)
    progress = str(succeeded_condition(run).get("message") or "")
    return Cancellation(
        ended=False,
        steps=steps,
        message=progress,
        wake_at=force_at if stop_value == IMMEDIATE or requested == IMMEDIATE else immediate_at,
    )


def pods_gone(ctx: Context, run_name: str, *, force_at: datetime | None) -> Cancellation:
    """Returns `ended` if a live list shows no pod of this run that may still be running.

    From `force_at` on, the pods that are left are deleted; None: they are only waited for.

    Quota must not be released while a pod of the run may still use the cluster.
    """
    answer = ctx.facts.require(_pods_question(ctx, run_name))
    if isinstance(answer, Unknown):
        return Cancellation(ended=False, message=f"cannot see the run's pods: {answer.reason}", retry=True)
    pods: tuple[Obj, ...] = () if isinstance(answer, Absent) else answer.value
    owned = (pod for pod in pods if _may_be_of(pod, ctx.name))
    alive = [pod for pod in owned if (pod.get("status") or {}).get("phase") not in _PODS_OVER]
    if not alive:
        return Cancellation(ended=True)
    steps: tuple[Step, ...] = ()
    force = force_at is not None and ctx.now >= force_at
    if force:
        steps = tuple(Delete(POD, key_of(pod), uid_of(pod), grace_seconds=0) for pod in alive)
    waiting = ", ".join(sorted(pod["metadata"]["name"] for pod in alive)[:3])
    return Cancellation(
        ended=False,
        steps=steps,
        message=f"waiting for {len(alive)} pod(s) to end: {waiting}",
        wake_at=None if force else force_at,
        retry=True,
    )


def _pods_question(ctx: Context, run_name: str) -> LiveList:
    return LiveList(POD, ctx.namespace, f"tekton.dev/pipelineRun={run_name}")


def _may_be_of(pod: Obj, job: str) -> bool:
    """Returns False if the pod's label names another job.

    Tekton copies a run's labels to its pods.  A run of the same name may belong to another job.
    """
    return bool((pod["metadata"].get("labels") or {}).get(names.JOB_NAME_LABEL, job) == job)


def _cancel(run: Obj, how: str) -> Patch:
    return Patch(PIPELINE_RUN, key_of(run), {"spec": {"status": how}})


# --- the phases Admitted and Running -------------------------------------------------------------------

_STARTED_WITHIN = timedelta(seconds=2)
"""The maximum delay of the Running phase after the run's creation.

Running is written with Tekton's first condition of the run, or after this time without one.
"""


_TOO_LARGE = "above max allowed size"
"""Of Tekton's text in the log of a step whose results do not fit into a termination message."""


def admitted(ctx: Context) -> Decision:
    """The policy of the Admitted phase: creates the attempt's objects, or holds the cluster for a lock."""
    if ctx.facts.failure:
        return _launch_failed(ctx, ctx.facts.failure)
    if ctx.spec.lock_only:
        return ctx.decision([*_mark(ctx), *(_hold(ctx) or _ready(ctx))])
    if ctx.run is not None:
        return running(ctx)
    return _leftovers(ctx) or _launch(ctx)


def _mark(ctx: Context) -> list[Step]:
    """Returns one patch with the finalizer and the label of an exclusively held cluster, or nothing.

    It precedes every other object of the attempt, so that a job is never deleted while its run is live.
    """
    meta = ctx.job["metadata"]
    labels = meta.get("labels") or {}
    metadata: dict[str, object] = {}
    if not ctx.spec.lock_only and not ctx.holds_finalizer:
        metadata |= switched(ctx.job, names.FINALIZER, on=True)
    exclusive = ctx.spec.cluster if ctx.spec.exclusive or ctx.spec.lock_only else None
    if exclusive and labels.get(names.EXCLUSIVE_CLUSTER_LABEL) != exclusive:
        metadata["labels"] = {names.EXCLUSIVE_CLUSTER_LABEL: exclusive}
    if not metadata:
        return []
    # resourceVersion is a precondition: the metadata must not be written from a stale view.
    body = {"metadata": {"resourceVersion": meta["resourceVersion"], **metadata}}
    return [Patch(FOURNOS_JOB, key_of(ctx.job), body)]


def _leftovers(ctx: Context) -> Decision | None:
    """Waits for pods of a run that does not exist any more, if the finalizer is present.

    The operator was restarted in between, or the run was deleted.  The run's pods may still be running, and a
    second run must not start beside them.
    """
    if not ctx.holds_finalizer:
        return None
    pods = pods_gone(ctx, ctx.run_name, force_at=None)
    if pods.ended:
        return None
    ctx.draft.set_message(f"The PipelineRun is gone, {pods.message}")
    return ctx.decision(retry=True)


def _launch(ctx: Context) -> Decision:
    if problem := params_problem(ctx):  # the Pipeline may have changed since the job was resolved
        return fail(ctx, problem, type_="PipelineRunReady", reason="InvalidParams")
    namespace = ctx.settings.secrets_namespace
    shapes = {
        ref: SecretShape(Key(namespace, ctx.settings.vault_secret(ref))) for ref in ctx.spec.secret_refs
    }
    answers = ctx.facts.require_all(shapes.values())
    steps, may = _mark(ctx), secret_consumer(ctx.job, ctx.settings.secret_policy)
    cluster = ctx.draft.cluster
    if not ctx.spec.clusterless:
        steps.append(
            CopySecret(
                Key(namespace, ctx.settings.kubeconfig_secret(cluster)),
                build.secret_copy(ctx.job, name=names.kubeconfig_copy_name(ctx.name), vault_entry=False),
                may,
            )
        )
    keys: dict[str, tuple[str, ...]] = {}
    for (ref, question), answer in zip(shapes.items(), answers, strict=True):
        if isinstance(answer, Unknown):
            text = f"Waiting: cannot read Secret '{question.key.name}': {answer.reason}"
            return wait(ctx, "PipelineRunReady", "SecretUnknown", text)
        if isinstance(answer, Absent):
            return fail(
                ctx,
                f"Secret '{question.key.name}' (ref '{ref}') not found in namespace {namespace}",
                type_="PipelineRunReady",
                reason="SecretRefNotFound",
            )
        keys[ref] = answer.value.keys
        copy = names.copy_name(ctx.name, question.key.name)
        steps.append(CopySecret(question.key, build.secret_copy(ctx.job, name=copy, vault_entry=True), may))
    run = build.pipeline_run(
        ctx.job,
        ctx.spec,
        cluster=cluster,
        name=ctx.run_name,
        attempt=max(1, ctx.draft.attempt),
        secret_keys=keys,
        pipeline=ctx.observed.pipeline or {},
        settings=ctx.settings,
    )
    steps.append(Create(PIPELINE_RUN, run))
    return ctx.decision(steps, wake_at=ctx.now + _STARTED_WITHIN, settled=True)


def _launch_failed(ctx: Context, failure: StepFailure) -> Decision:
    step = failure.step
    if waiting := wait_if_curable(ctx, failure, "PipelineRunReady", engine="Tekton"):
        return waiting
    if isinstance(step, CopySecret):
        entry = step.metadata["labels"].get(names.VAULT_ENTRY_LABEL)
        problem = (
            f"Secret '{step.source.name}' not found in namespace {step.source.namespace}"
            if failure.error == "NotFoundError"
            else failure.message
        )
        reason = "SecretRefNotFound" if entry else "KubeconfigNotFound"
        return fail(
            ctx,
            f"Failed to copy {'secret' if entry else 'kubeconfig'}: {problem}",
            type_="PipelineRunReady",
            reason="SecretNotAllowed" if failure.error == "NotAllowed" else reason,
        )
    if isinstance(step, Create):
        other = names.attempt_name(ctx.name, max(1, ctx.draft.attempt), uid_of(ctx.job))
        if failure.error == "ForeignObject" and ctx.run_name != other:  # written before it is created
            ctx.draft.amend_attempt(pipelineRun=other)
            return ctx.decision(retry=True)
        return fail(
            ctx,
            f"Failed to create PipelineRun: {failure.message}",
            type_="PipelineRunReady",
            reason="CreateFailed",
        )
    return wait(ctx, "PipelineRunReady", failure.error, f"Waiting: {failure.message}")


def running(ctx: Context) -> Decision:
    """The policy of the Running phase: follows the PipelineRun and ends the attempt with it."""
    run = ctx.run
    if run is None:
        return _run_missing(ctx)
    if run_ended(run):
        return _ended(ctx, run)
    succeeded = succeeded_condition(run)
    if not succeeded and not _overdue(ctx, run):
        return ctx.decision(wake_at=creation_time(run) + _STARTED_WITHIN)
    reported = str(succeeded.get("message") or "")
    message = f"Pipeline running: {reported}" if reported else "PipelineRun created, waiting for execution"
    reason = "Running" if reported else "Started"
    ctx.draft.enter("Running", message).condition("PipelineRunReady", "Unknown", reason, message)
    _name_run(ctx, run)
    return ctx.decision(_ready(ctx))


def _ready(ctx: Context) -> tuple[Step, ...]:
    """Returns the PodsReady patch, once per attempt.

    With waitForPodsReady, Kueue evicts a Workload without this condition.
    """
    workload = ctx.workload
    patch = pods_ready_patch(workload, True, ctx.now) if workload is not None else None
    return (patch,) if patch is not None else ()


def _hold(ctx: Context) -> tuple[Step, ...]:
    """Returns the patch that raises the priority of a held lock, so that no other job pushes it out.

    While it waits it has its own priority, and pushes out nobody by this: `queue` takes it back.  MultiKueue
    deletes a Workload on a worker whose spec is changed.
    """
    workload = ctx.workload
    if (
        workload is None
        or prebuilt_name(ctx.job)
        or int(workload["spec"].get("priority") or 0) >= names.LOCK_PRIORITY
    ):
        return ()
    meta = {"resourceVersion": workload["metadata"]["resourceVersion"]}
    body = {"metadata": meta, "spec": {"priority": names.LOCK_PRIORITY}}
    return (Patch(WORKLOAD, key_of(workload), body),)


def _name_run(ctx: Context, run: Obj) -> None:
    ctx.draft.put(pipelineRun=run["metadata"]["name"])
    if url := build.dashboard_url(run, ctx.settings):
        ctx.draft.put(dashboardURL=url)


def _ended(ctx: Context, run: Obj) -> Decision:
    _name_run(ctx, run)
    found = succeeded_condition(run)
    reported = str(found.get("message") or "")
    if run_succeeded(run):
        message = "Pipeline completed successfully"
        ctx.draft.end_attempt("Succeeded").condition(
            "PipelineRunReady", "True", "Succeeded", reported or message
        )
        _complete_times(ctx, run)
        return finish(ctx, "Succeeded", message)
    completed = parse_time(run["status"]["completionTime"])
    force_at = completed + timedelta(seconds=ctx.settings.terminate_grace_sec)
    # Release before declare: fail_attempt releases the quota, so no pod of the run may be left.
    pods = pods_gone(ctx, run["metadata"]["name"], force_at=force_at)
    if not pods.ended:
        ctx.draft.set_message(f"PipelineRun failed, {pods.message}")
        return ctx.decision(pods.steps, wake_at=pods.wake_at, retry=pods.retry)
    message = (reported or "PipelineRun failed") + _too_large_result(ctx, run["metadata"]["name"])
    ctx.draft.condition("PipelineRunReady", "False", "Failed", message)
    _complete_times(ctx, run)
    return fail_attempt(ctx, message)


def _too_large_result(ctx: Context, run_name: str) -> str:
    """Returns what to do about a result that was too large for Tekton; "" if the run failed otherwise.

    Only the log of the step has it: its last words.
    """
    answer = ctx.facts.require(_pods_question(ctx, run_name))
    for pod in answer.value if isinstance(answer, Present) else ():
        task_run = (pod["metadata"].get("labels") or {}).get("tekton.dev/taskRun")
        failed = [
            status["name"]
            for status in (pod.get("status") or {}).get("containerStatuses") or ()
            if ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
        ]
        if not task_run or not failed:
            continue
        tail = LogTail(ctx.namespace, f"tekton.dev/taskRun={task_run}", 3, container=failed[0])
        log = ctx.facts.require(tail)
        if isinstance(log, Present) and _TOO_LARGE in log.value:
            return (
                f". The results of TaskRun {task_run} are larger than Tekton takes, 4,096 bytes a task: "
                "send them with fournos results push"
            )
        break  # the others ended because of this one
    return ""


def _complete_times(ctx: Context, run: Obj) -> None:
    started = (run.get("status") or {}).get("startTime")
    if started:
        ctx.draft.started_running(parse_time(started))


def _run_missing(ctx: Context) -> Decision:
    """Fails the attempt if a live read confirms that the run does not exist and no pod of it is left."""
    name = ctx.run_name
    answer = ctx.facts.require(LiveGet(PIPELINE_RUN, Key(ctx.namespace, name)))
    if isinstance(answer, Present):
        return Decision(retry=True)
    if isinstance(answer, Unknown) or answer.no_kind:
        return wait(ctx, "PipelineRunReady", "PipelineRunUnknown", "Waiting: cannot read the PipelineRun")
    pods = pods_gone(ctx, name, force_at=None)
    if not pods.ended:
        ctx.draft.set_message(f"PipelineRun not found, {pods.message}")
        return ctx.decision(retry=True)
    text = "PipelineRun not found"
    ctx.draft.condition("PipelineRunReady", "False", "NotFound", text)
    return fail_attempt(ctx, text)


def _overdue(ctx: Context, run: Obj) -> bool:
    return ctx.now >= creation_time(run) + _STARTED_WITHIN
