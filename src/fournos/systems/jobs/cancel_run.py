"""Cancellation of a PipelineRun: gracefully, then immediately, then by force.

A graceful stop (CancelledRunFinally) lets Tekton run finally tasks; an immediate one (Cancelled) does not.
Each stage has a time limit.  After the last one the PipelineRun and its pods are deleted.  A run has ended
only when none of its pods runs any more, and quota is released only after `ended` is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from fournos.api.kinds import PIPELINE_RUN
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import POD, Key, Obj, key_of, uid_of
from fournos.engine.runtime.decision import Absent, LiveGet, LiveList, Unknown
from fournos.engine.runtime.steps import Delete, Patch, Step
from fournos.systems.jobs import names
from fournos.systems.jobs.context import Context, run_ended, succeeded_condition

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
            steps=(Delete(PIPELINE_RUN, key_of(run), uid_of(run)),),
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
    answer = ctx.facts.require(LiveList(POD, ctx.namespace, f"tekton.dev/pipelineRun={run_name}"))
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


def _may_be_of(pod: Obj, job: str) -> bool:
    """Returns False if the pod's label names another job.

    Tekton copies a run's labels to its pods.  A run of the same name may belong to another job.
    """
    return bool((pod["metadata"].get("labels") or {}).get(names.JOB_NAME_LABEL, job) == job)


def _cancel(run: Obj, how: str) -> Patch:
    return Patch(PIPELINE_RUN, key_of(run), {"spec": {"status": how}})
