"""Transitions that end a job or an attempt.

Release before declare: a terminal phase is written only together with, or after, the release of quota.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from fournos.api.fournosjob import MAX_RESULTS, Outcome
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.api.phase import Phase
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import format_time, parse_duration, parse_time, parse_ttl
from fournos.engine.kube.resource import JOB, SECRET, Key, Obj, key_of, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import made_by_manager
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import (
    Answer,
    Create,
    Decision,
    Delete,
    EventRecord,
    LiveGet,
    Present,
    SecretShape,
    Step,
    Unknown,
)
from fournos.systems.jobs import names
from fournos.systems.jobs.names import RESULT_NAME
from fournos.systems.jobs.own_job import believed, children
from fournos.systems.jobs.queue import queue
from fournos.systems.jobs.status import Context

# --- reruns --------------------------------------------------------------------------------------------
# Reruns that confirm a suspected regression: a job's results are measured again before anybody is alerted.
#
# The history compares the results of an ended job and writes `status.suspectedAt`; it creates nothing.  The
# operator creates the reruns, so that they do not depend on a database: once, with the owner, the namespace
# and the hardware of the job.  A rerun has the label fournos.dev/confirms, which only the operator may set,
# and asks for no reruns itself.

_NOT_COPIED = frozenset({"shutdown", "suspend", "managedBy", "confirm", "priority"})
_KUEUE = "kueue.x-k8s.io/"


def repeats(ctx: Context) -> int:
    """Returns how many reruns a suspected regression of the job is worth; 0 for none.

    A rerun has none, nor has a job of another cluster: its manager cluster has the history.
    """
    labels = ctx.job["metadata"].get("labels") or {}
    if (
        not ctx.settings.history_enabled
        or names.CONFIRMS_LABEL in labels
        or ctx.spec.lock_only
        or prebuilt_name(ctx.job)
    ):
        return 0
    return ctx.settings.confirm_repeats if ctx.spec.confirm is None else ctx.spec.confirm.repeats


def expect_reruns(ctx: Context, phase: str) -> None:
    """Adds the condition to the status that declares the end: the history compares only jobs that have it."""
    if phase == Phase.SUCCEEDED and repeats(ctx):
        text = "The history has not compared the results with earlier runs yet"
        ctx.draft.condition(names.RERUNS_CREATED, "Unknown", "Pending", text)


def next_rerun(ctx: Context) -> Decision | None:
    """Creates the reruns of a job whose results are suspected to be a regression; None if none are awaited.

    They are created once: the condition is true from then on, whatever becomes of them.
    """
    if not ctx.draft.is_unknown(names.RERUNS_CREATED):
        return None
    if ctx.draft.suspected_at is None:
        if ctx.draft.archived_at is None:
            return None
        text = "The history suspects no regression in the results"
        ctx.draft.condition(names.RERUNS_CREATED, "False", "NotSuspected", text)
        return ctx.decision(wake_at=_expiry(ctx))
    failure = ctx.facts.failure
    if failure and isinstance(failure.step, Create) and failure.step.resource == FOURNOS_JOB:
        text = f"The reruns cannot be created: {failure.message}"
        return _reruns_ended(ctx, "False", failure.error, text)
    if ctx.job["metadata"].get("generation") != ctx.draft.observed_generation:
        # The owner, say, may not be the one whose results are suspected.
        return _reruns_ended(
            ctx, "False", "SpecChanged", "No rerun is made: the spec was changed after the end"
        )
    made = [_rerun(ctx, number) for number in range(1, repeats(ctx) + 1)]
    listed = [manifest["metadata"]["name"] for manifest in made]
    ctx.draft.put(reruns=listed)
    text = f"A suspected regression is measured again by {', '.join(listed)}"
    steps = tuple(Create(FOURNOS_JOB, manifest, own_label=names.CONFIRMS_LABEL) for manifest in made)
    return _reruns_ended(ctx, "True", "Created", text, steps) if made else None


def _reruns_ended(
    ctx: Context, status: str, reason: str, text: str, steps: tuple[Create, ...] = ()
) -> Decision:
    ctx.draft.condition(names.RERUNS_CREATED, status, reason, text)
    ctx.draft.event(f"Reruns{reason}", text, warning=status == "False")
    return ctx.decision(steps)


def _rerun(ctx: Context, number: int) -> Obj:
    """Returns a rerun: the same spec on the same cluster and hardware, without its priority."""
    meta = ctx.job["metadata"]
    spec: dict[str, Any] = {
        field: value for field, value in ctx.job["spec"].items() if field not in _NOT_COPIED
    }
    spec["confirm"] = {"repeats": 0}
    if ctx.settings.confirm_priority:
        spec["priority"] = ctx.settings.confirm_priority
    if not ctx.spec.clusterless and ctx.draft.cluster:
        spec["cluster"] = ctx.draft.cluster
    if hardware := ctx.draft.resolved_hardware:
        spec["hardware"] = dict(hardware)
    # Kueue's labels name the job's own queue, priority and Workload.
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if _KUEUE not in name}
    return {
        "apiVersion": FOURNOS_JOB.api_version,
        "kind": FOURNOS_JOB.kind,
        "metadata": {
            "name": names.rerun_name(meta["name"], uid_of(ctx.job), number),
            "namespace": ctx.namespace,
            "labels": {**labels, names.CONFIRMS_LABEL: uid_of(ctx.job)},
            "annotations": {names.RERUN_OF_ANNOTATION: meta["name"]},
        },
        "spec": spec,
    }


# --- results of another cluster ------------------------------------------------------------------------
# The results that the run of a job of another cluster returned: in the job's status they reach that cluster.
#
# A manager cluster of MultiKueue has no run, and reads nothing of its workers but the status of the copies.
# Where the run is, the history reads the run itself.

MOST_BYTES: Final = 256 * 1024
"""An object of an API server has 1.5 MB at most, with all else of its status."""
MOST_TASKS: Final = 100
_RETRIED: Final = timedelta(seconds=30)
"""How long after the end of the run an API server that does not answer is asked again."""


def keep_results(ctx: Context) -> bool:
    """Puts the results of the current run into the status; False: not now, as the API server does not answer.

    A run that failed or was stopped has measured something, too: its tasks return what they wrote before.
    Costs one read of the run and one of each task, of jobs of another cluster that had a run.
    """
    run = ctx.run
    if run is None or not prebuilt_name(ctx.job):
        return True
    live_run = ctx.facts.require(LiveGet(PIPELINE_RUN, key_of(run)))
    tasks = ctx.facts.require_all(_tasks(live_run, run))
    if any(isinstance(one, Unknown) and not one.forbidden for one in (live_run, *tasks)) and _early(ctx, run):
        return False
    mine: list[Obj] = []
    if isinstance(live_run, Present):
        mine, problem = believed(live_run.value, [task.value for task in tasks if isinstance(task, Present)])
        if not problem or any(isinstance(task, Unknown) for task in tasks):
            mine.append(live_run.value)
        elif any(_results(live_run.value)):
            text = f"The results of PipelineRun {run['metadata']['name']} itself do not count: {problem}"
            ctx.draft.event("ResultsNotKept", text, warning=True)
    results = [result for obj in mine for result in _results(obj)]
    if not results:
        return True
    size = len(orjson.dumps(results))
    if len(results) > MAX_RESULTS or size > MOST_BYTES:
        text = (
            f"The run returned {len(results)} results of {size} bytes, which the status cannot hold "
            f"(at most {MAX_RESULTS} of {MOST_BYTES} bytes): send them with fournos results push"
        )
        ctx.draft.event("ResultsNotKept", text, warning=True)
        return True
    ctx.draft.put(results=results)
    return True


def _tasks(found: Answer, run: Obj) -> list[LiveGet]:
    """Returns the questions for the TaskRuns of the run."""
    names = children(found.value) if isinstance(found, Present) else []
    namespace = run["metadata"]["namespace"]
    return [LiveGet(TASK_RUN, Key(namespace, name)) for name in names[:MOST_TASKS]]


def _results(obj: Obj) -> Iterable[dict[str, Any]]:
    for one in (obj.get("status") or {}).get("results") or ():
        if one.get("name") == RESULT_NAME and one.get("value"):
            yield {"name": RESULT_NAME, "value": one["value"]}


def _early(ctx: Context, run: Obj) -> bool:
    completed = (run.get("status") or {}).get("completionTime")
    return completed is not None and ctx.now < parse_time(completed) + _RETRIED


# --- the ends ------------------------------------------------------------------------------------------


_LONGEST_BACKOFF: Final = timedelta(days=366)
"""Backoffs double; a time has no year 10000."""


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
    if ctx.draft.is_true("Suspended"):
        ctx.draft.condition("Suspended", "False", "Ended", "")
    ctx.draft.event(phase, message, warning=phase == "Failed")
    expect_reruns(ctx, phase)
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
    at = ctx.now + min(timedelta(seconds=base) * 2 ** (failed - 1), _LONGEST_BACKOFF)
    text = f"Attempt {ctx.draft.attempt} failed: {message}. Retry {failed} of {limit} at {format_time(at)}"
    ctx.draft.enter("Pending", text).put(retryAt=format_time(at), cluster=None)
    ctx.draft.condition("WorkloadAdmitted", "False", "Retrying", text)
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
    if (reruns := next_rerun(ctx)) is not None:
        return reruns
    return expire(ctx)


def expire(ctx: Context) -> Decision:
    """Deletes the ended job after `spec.ttl`.

    With a history it waits until that has recorded the end and written `status.archivedAt`, at most until
    the deadline.
    """
    expiry = _expiry(ctx)
    if expiry is None:
        return Decision()
    if ctx.now < expiry:
        return Decision(wake_at=expiry)
    deletion = Delete(FOURNOS_JOB, key_of(ctx.job), uid_of(ctx.job))
    if not ctx.settings.history_enabled or ctx.draft.archived_at is not None:
        return Decision((deletion,))
    deadline = expiry + timedelta(seconds=ctx.settings.archive_deadline_sec)
    if ctx.now < deadline:
        return Decision(wake_at=deadline)
    waited = f"{ctx.settings.archive_deadline_sec:g} s"
    text = f"The history has not recorded the end of the job within {waited} after spec.ttl; it is deleted"
    return Decision((deletion,), events=(EventRecord("Warning", "NotArchived", text),))


def _expiry(ctx: Context) -> datetime | None:
    finished = ctx.draft.phase_times.finished
    if not ctx.spec.ttl or not finished or made_by_manager(ctx.job):
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
