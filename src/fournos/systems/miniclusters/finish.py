"""The end of a MiniCluster. Its result is the lead broker's exit code.

The result is written first. Then the remaining pods are taken down, and at last the phase becomes Finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.engine.runtime.decision import Decision
from fournos.engine.runtime.steps import Delete
from fournos.systems.miniclusters.context import Context, terminal
from fournos.systems.miniclusters.exit_code import exit_code, flux_error, last_end
from fournos.systems.miniclusters.health import lead_of
from fournos.systems.miniclusters.status import FINISHED, READY, RUNNING, WAITING
from fournos.systems.miniclusters.teardown import remove


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
    if ctx.spec.get("cleanup"):
        return Decision(steps=(Delete(MINICLUSTER, key_of(ctx.minicluster), uid_of(ctx.minicluster)),))
    return Decision()
