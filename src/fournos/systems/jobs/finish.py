"""Transitions that end a job or an attempt.

Release before declare: a terminal phase is written only together with, or after, the release of quota.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fournos.api.fournosjob import Outcome
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import format_time, parse_duration, parse_ttl
from fournos.engine.kube.resource import JOB, SECRET, Key, key_of, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import Decision, Present, SecretShape
from fournos.engine.runtime.steps import Delete, Step
from fournos.systems.jobs import archive, confirm, names
from fournos.systems.jobs.context import Context
from fournos.systems.jobs.queued import queue
from fournos.systems.jobs.returned import keep_results


def release(ctx: Context) -> tuple[Step, ...]:
    """Returns the steps that delete every Workload of this job and a resolve Job that still runs.

    A prebuilt Workload belongs to MultiKueue: it is finished after the job, and never deleted here.
    """
    steps: list[Step] = []
    if not prebuilt_name(ctx.job):
        steps += [Delete(WORKLOAD, key_of(w), uid_of(w)) for w in ctx.observed.workloads]
    steps += [
        Delete(JOB, key_of(job), uid_of(job))
        for job in ctx.observed.resolve_jobs
        if not is_true(job, "Complete") and not is_true(job, "Failed")
    ]
    return tuple(steps)


def finish(ctx: Context, phase: str, message: str) -> Decision:
    """Enters a terminal phase and releases quota.  The caller sets conditions and the attempt's outcome."""
    copies = _copies_to_drop(ctx)
    if not keep_results(ctx):
        return Decision(retry=True)
    ctx.draft.enter(phase, message).put(retryAt=None, stopRequestedAt=None)
    ctx.draft.event(phase, message, warning=phase == "Failed")
    archive.expect(ctx)
    confirm.expect(ctx, phase)
    # A prebuilt Workload is finished afterwards, by `after_end`.  Its end is the signal to the manager
    # cluster that the job's status is final, so the status must be written first.
    return ctx.decision((*release(ctx), *copies))


def fail(ctx: Context, message: str, *, type_: str, reason: str, detail: str = "") -> Decision:
    """Fails the job with a condition that gives the reason; used where waiting would not help."""
    ctx.draft.condition(type_, "False", reason, detail or message)
    ctx.draft.end_attempt("Failed", message)
    return finish(ctx, "Failed", message)


def fail_attempt(ctx: Context, message: str) -> Decision:
    """Fails the current attempt; the job is retried if `spec.retry` allows it, otherwise it fails.

    The backoff doubles with each failed attempt.  Attempts that Kueue evicted do not count.
    """
    ctx.draft.end_attempt("Failed", message)
    failed = sum(attempt.outcome is Outcome.FAILED for attempt in ctx.draft.attempts)
    limit = (ctx.spec.retry and ctx.spec.retry.limit) or 0
    if prebuilt_name(ctx.job):
        limit = 0  # MultiKueue owns the only Workload: the manager cluster decides on another attempt
    if failed > limit:
        return finish(ctx, "Failed", message)
    assert ctx.spec.retry is not None
    base = (
        parse_duration(ctx.spec.retry.backoff).total_seconds()
        if ctx.spec.retry.backoff
        else ctx.settings.retry_backoff_sec
    )
    at = ctx.now + timedelta(seconds=base * 2 ** (failed - 1))
    text = f"Attempt {ctx.draft.attempt} failed: {message}. Retry {failed} of {limit} at {format_time(at)}"
    ctx.draft.enter("Pending", text).put(retryAt=format_time(at), cluster=None)
    ctx.draft.event("Retrying", text, warning=True)
    return ctx.decision(release(ctx), wake_at=at)


def after_end(ctx: Context) -> Decision:
    """Cleans up after a terminal phase: leftovers, the finalizer, then the job itself after `spec.ttl`."""
    steps = [*release(ctx), *(queue(ctx).steps if prebuilt_name(ctx.job) else ()), *ctx.finalizer(on=False)]
    expiry = _expiry(ctx)
    if steps:
        # The deletions of a Workload and a resolve Job are events; a prebuilt Workload may need more steps.
        # A passed expiry is not a deadline: the key would run on and on while such an event is missing.
        rests = expiry is None or ctx.now < expiry
        # An answer to one of these writes may bring `status.suspectedAt`, without an event of its own.
        settled = rests and not prebuilt_name(ctx.job) and not ctx.draft.is_unknown(names.RERUNS_CREATED)
        return Decision(tuple(steps), wake_at=expiry if rests else None, settled=settled)
    if (reruns := confirm.rerun(ctx)) is not None:
        return reruns
    if expiry is None:
        return Decision()
    if ctx.now >= expiry:
        waiting = archive.wait(ctx, expiry)
        if waiting is not None:
            return waiting
        key = key_of(ctx.job)
        return Decision(steps=(Delete(FOURNOS_JOB, key, uid_of(ctx.job)),))
    return Decision(wake_at=expiry)


def _expiry(ctx: Context) -> datetime | None:
    finished = ctx.draft.phase_times.finished
    if not ctx.spec.ttl or not finished:
        return None
    return finished + parse_ttl(ctx.spec.ttl)


def _copies_to_drop(ctx: Context) -> tuple[Step, ...]:
    """Returns the deletions of the copied Secrets, if the setting `secrets_kept` limits them to the run.

    Only Secrets with this job's owner reference are deleted, by UID.
    """
    if ctx.settings.secrets_kept == "job" or ctx.draft.attempt == 0:
        return ()
    copies = [
        Key(ctx.namespace, names.copy_name(ctx.name, ctx.settings.vault_secret(ref)))
        for ref in ctx.spec.secret_refs
    ]
    if not ctx.spec.clusterless:
        copies.append(Key(ctx.namespace, names.kubeconfig_copy_name(ctx.name)))
    questions = [SecretShape(key) for key in copies]
    steps: list[Step] = []
    for question, answer in zip(questions, ctx.facts.require_all(questions), strict=True):
        if isinstance(answer, Present) and uid_of(ctx.job) in answer.value.owner_uids:
            steps.append(Delete(SECRET, question.key, answer.value.uid))
    return tuple(steps)
