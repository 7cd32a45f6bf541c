"""The end of a MiniCluster. Its result is the lead broker's exit code.

The result is written first. Then the remaining pods are taken down, and at last the phase becomes Finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import parse_count, parse_time
from fournos.engine.kube.resource import JOB, POD, Obj, is_terminating, key_of, uid_of
from fournos.engine.queueing.job import made_by_manager
from fournos.engine.runtime.decision import Decision, Delete, Step
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.health import ended_well, exit_code, flux_error, last_end, lead_of, runner
from fournos.systems.miniclusters.status import (
    FINISHED,
    READY,
    RUNNING,
    WAITING,
    Context,
    index_of,
    over,
    terminal,
)

# --- teardown ------------------------------------------------------------------------------------------
# Quota is released only then, and only after live reads: a pod that the cache does not show may still run.


@dataclass(frozen=True, slots=True)
class Removal:
    """The next steps of a teardown."""

    done: bool
    steps: tuple[Step, ...] = ()
    unsure: bool = False
    """True if the API server could not be read; retry later."""


def remove(ctx: Context, *, keep_job: bool = False) -> Removal:
    """Returns the next steps.

    With `keep_job` the Job has ended: it and its ended pods are kept for their logs, and only pods that still
    run are deleted.
    """
    if not ctx.facts.known((ctx.job_question, ctx.pods_question)):
        return Removal(done=False, unsure=True)
    steps: list[Step] = []
    job = ctx.job
    if job is not None and not keep_job and not is_terminating(job):
        # Foreground deletion: the Job exists until its pods are gone.
        steps.append(Delete(JOB, key_of(job), uid_of(job), propagation="Foreground"))
    for pod in ctx.alive:
        owned = pod["metadata"]["name"] == names.services_pod(ctx.name) and ctx.owns(pod)
        if owned and not is_terminating(pod):
            steps.append(Delete(POD, key_of(pod), uid_of(pod)))
    done = not ctx.alive and (job is None or keep_job)
    return Removal(done=done, steps=tuple(steps))


# --- finish --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """The result of a MiniCluster. `exit_code` is None if there is none, for example after the deadline."""

    exit_code: int | None
    reason: str
    message: str


def end_of(ctx: Context, job: Obj) -> End | datetime | None:
    """Returns the result, or None if the MiniCluster has not ended.

    A time means that it has ended; until that time the Job may report the end itself.
    """
    lead = lead_of(ctx)
    code = exit_code(lead, ctx.name) if lead is not None else None
    if is_true(job, "Complete"):
        return _ended(0 if code is None else code)
    failed = condition(job, "Failed") or {}
    if failed.get("status") == "True":
        reason = str(failed.get("reason") or "Failed")
        if code is not None and reason != "DeadlineExceeded":
            return _ended(code)
        text = f"The Job failed: {reason}: {failed.get('message') or ''}".removesuffix(": ")
        why = next(filter(None, (flux_error(pod, ctx.name) for pod in ctx.pods)), "")
        return End(code or None, reason, f"{text}: {why}" if why else text)
    if lead is None or code is None:
        return None  # the Job's own policies handle everything else
    if code and ctx.spec.get("backoffLimit") is not None:
        return None
    failed_alone = code == 0 and (lead.get("status") or {}).get("phase") == "Failed"
    if not failed_alone and (terminal(lead) or _all_ended(lead)):
        return None  # the kubelet is about to report the pod's end, and the Job keeps the pod and its log
    # There are three cases. A sidecar keeps the pod, and so the Job, from ending. Or a sidecar has failed,
    # and the Job creates no other pod for that. Or the pod's restart policy starts the container again.
    ended = last_end(lead, ctx.name)
    at = parse_time(ended["finishedAt"]) if ended.get("finishedAt") else ctx.now
    until = at + timedelta(seconds=ctx.settings.end_grace_sec)
    return _ended(code) if ctx.now >= until else until


def held_pods(ctx: Context) -> tuple[tuple[Obj, datetime], ...]:
    """Returns the pods whose Flux has failed while a container beside it runs on, each with when it may go.

    Such a pod does not fail, so the Job's policies never act: no result, and no other pod. The pod is
    deleted; what its Flux has ended with then counts for the Job.
    """
    held = []
    for pod in ctx.pods:
        ended = (runner(pod, ctx.name).get("state") or {}).get("terminated") or {}
        if not ended.get("exitCode") or terminal(pod) or is_terminating(pod) or _all_ended(pod):
            continue
        if (ctx.spec.get("pod") or {}).get("restartPolicy") == "OnFailure":
            continue  # the kubelet starts the container again
        at = parse_time(ended["finishedAt"]) if ended.get("finishedAt") else ctx.now
        held.append((pod, at + timedelta(seconds=ctx.settings.end_grace_sec)))
    return tuple(held)


def _all_ended(pod: Obj) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return all("terminated" in (status.get("state") or {}) for status in statuses)


def _ended(code: int) -> End:
    if code == 0:
        return End(0, "Succeeded", "The lead broker has ended with exit code 0")
    return End(code, "Failed", f"The lead broker has ended with exit code {code}")


def confirmed(ctx: Context) -> bool:
    """True if Job and pods were read live in this pass. A cache alone must not end a MiniCluster."""
    return ctx.facts.known((ctx.job_question, ctx.pods_question))


def finishing(ctx: Context) -> Decision:
    """Takes down what still runs, then sets the phase Finished. The result is already written."""
    job = ctx.job
    over = job is not None and (is_true(job, "Complete") or is_true(job, "Failed"))
    removal = remove(ctx, keep_job=over)
    if not removal.done:
        return ctx.decision(removal.steps, retry=removal.unsure)
    code, message = ctx.draft.exit_code, ctx.draft.message
    reason = ctx.draft.reason_of(RUNNING)
    ctx.draft.condition(FINISHED, True, reason, message).phased("Finished", message).put(ready=0)
    ctx.draft.condition(WAITING, False, "Finished").condition(READY, False, "Finished")
    ctx.draft.event("Finished", message, warning=code != 0)
    return ctx.decision()


def finished(ctx: Context) -> Decision:
    """Creates nothing any more. With `cleanup` it deletes the MiniCluster, and with it all its objects."""
    if ctx.spec.get("cleanup") and not made_by_manager(ctx.minicluster):
        return Decision(steps=(Delete(MINICLUSTER, key_of(ctx.minicluster), uid_of(ctx.minicluster)),))
    return Decision()


# --- restart -------------------------------------------------------------------------------------------
# Restarts a MiniCluster whose lead broker was stopped together with its workers.
#
# A lead broker that receives SIGTERM shuts its workers down, and the Job controller never runs an index
# again that has succeeded. The replaced lead broker would wait for these workers forever. Nothing of the
# instance is left, so the whole Job is created again, as soon as the pod of the stopped lead broker has
# ended: then its successor need not be stopped in the middle of its start.
#
# At a regular end, too, workers end before their lead broker, which may take long to write an archive or to
# run the user's `post`. What counts is therefore whether a lead broker is still to start, or started after
# its workers had ended.

_GRACE: Final = timedelta(seconds=15)
"""The Job's pods and its status come from different caches, which may lag behind each other."""
_LATEST: Final = 253402300799
"""The last second that a datetime can represent."""


def due(ctx: Context) -> datetime | None:
    """Returns when to restart, or None.

    A restart is due if workers that the next lead broker needs had ended before it starts.
    """
    lead = lead_of(ctx)
    if (ctx.spec.get("flux") or {}).get("completeWorkers") or lead is None:
        return None
    since = _since(ctx, lead)
    if since is None:
        return None
    at, started = since
    ends = [end for pod in ctx.pods if (end := _worker_ended(ctx, pod)) is not None]
    if any(end <= (at if started else ctx.now) for end in ends):
        return at
    first = ctx.draft.started_at
    if first is not None and first < at and _without_pods(ctx):
        return at + _GRACE
    return None


def _since(ctx: Context, lead: Obj) -> tuple[datetime, bool] | None:
    """Returns since when the lead broker runs (True), or since when another is to start (False).

    None if it has a result, or is about to end.
    """
    if is_terminating(lead) and not terminal(lead):
        return None
    state = runner(lead, ctx.name).get("state") or {}
    ended = state.get("terminated") or {}
    if "running" in state:
        at, started = state["running"].get("startedAt"), True
    elif ended:
        at, started = ended.get("finishedAt") if ended.get("exitCode") == names.STOPPED else None, False
    elif terminal(lead):
        return None
    else:
        at, started = lead["metadata"].get("creationTimestamp"), False
    return (parse_time(at), started) if at else None


def _worker_ended(ctx: Context, pod: Obj) -> datetime | None:
    """Returns when a worker's broker ended with 0.

    The termination message has the time (worker.sh), because the container may have run on after it. Without
    a message the container's end counts.
    """
    if not index_of(pod) or not terminal(pod):
        return None
    ended = ended_well(pod, ctx.name)
    if (second := parse_count(ended.get("message"), most=_LATEST)) is not None:
        return datetime.fromtimestamp(second, UTC)
    return parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None


def _without_pods(ctx: Context) -> set[int]:
    """Returns the workers' indexes that the Job counts as finished and whose pods were deleted.

    A node drain, for example, deletes finished pods.
    """
    job = ctx.job
    if job is None:
        return set()
    size = int(job["spec"].get("parallelism", 1))
    return {index for index in over(job) if 0 < index < size} - {index_of(pod) for pod in ctx.pods}


def begin_again(ctx: Context) -> Decision:
    """Deletes the Job. It is created again when its pods are gone."""
    removal = remove(ctx)
    at = due(ctx)
    if at is None or ctx.now < at:
        return Decision(retry=True)  # the live read contradicts the cache
    text = "The lead broker was stopped and its workers have ended: the MiniCluster begins again"
    if removal.steps:
        ctx.draft.event("Restarted", text, warning=True)
    ctx.draft.condition(RUNNING, False, "LeadKilled", text).condition(READY, False, "LeadKilled", text)
    ctx.draft.phased("Waiting", text).put(ready=0, startedAt=None)
    return ctx.decision(removal.steps, retry=removal.unsure)
