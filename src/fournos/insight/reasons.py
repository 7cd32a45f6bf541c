"""Explains why a job waits and what to do about it, from facts that are already read.  Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fournos.api.phase import run_times
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.workload import view
from fournos.insight.children import FAILED, RUNNING, tasks
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts
from fournos.insight.failure import failure, was_resolved
from fournos.insight.queue_reasons import kept_from_quota, short, with_kueue
from fournos.insight.starting import advice as advice_for
from fournos.insight.starting import problems
from fournos.insight.values import (
    between,
    is_terminal,
    moment,
    name_of,
    one_line,
    phase_of,
    since,
    spec_of,
    status_of,
)
from fournos.insight.values import short as short_text
from fournos.systems.jobs.names import RERUNS_CREATED


def explain(facts: WaitFacts, now: datetime) -> Explanation:
    """Explains the phase of the job."""
    explanation = _explained(facts, now)
    return replace(explanation, kept=_kept(facts, explanation, now))


def _explained(facts: WaitFacts, now: datetime) -> Explanation:
    job = facts.job
    name, phase = name_of(job), phase_of(job)
    if job["metadata"].get("deletionTimestamp"):
        return Explanation(f"{name} is being deleted; its run is stopped first.", _messages(job))
    match phase:
        case "New":
            return _new(job, now)
        case "Resolving":
            return _resolving(facts, now)
        case "Pending":
            return _pending(facts, now)
        case "Admitted" if spec_of(job).get("lockOnly"):
            return _held(job, now)
        case "Admitted":
            text = f"{name} has its cluster, {status_of(job).get('cluster')}; its run is being prepared."
            advice = (f"follow it: fournos watch {name}",)
            return Explanation(text, _messages(job), advice)
        case "Running":
            return _running(facts, now)
        case "Stopping":
            text = f"{name} is being stopped: its run has to end before its quota is given back."
            return Explanation(
                text, _messages(job), (f"do not wait for finally tasks: fournos stop --now {name}",)
            )
        case _ if is_terminal(job):
            return _ended(facts, now)
        case _:  # of a newer operator
            return Explanation(f"{name} is {phase}.", _messages(job))


def _kept(facts: WaitFacts, explanation: Explanation, now: datetime) -> str:
    quota = explanation.quota
    if quota is None or not explanation.by_turn:
        return explanation.verdict.removesuffix(".")
    ends = [end for each in quota.flavors if (end := moment(facts.locks.get(each)))]
    if quota.fitting or len(ends) < len(quota.flavors):
        return ""
    left = short_text(max(timedelta(0), min(ends) - now))
    return f"{name_of(facts.job)} waits: {' and '.join(quota.flavors)} is locked for {left} more"


def _messages(job: Obj, *skip: str) -> tuple[str, ...]:
    """The status message, and each condition that reports a problem, without the types in `skip`."""
    status = status_of(job)
    message = one_line(status.get("message"))
    lines = [message] if message else []
    for stated in status.get("conditions") or ():
        text = one_line(stated.get("message"))
        # Suspended and Retrying have negative polarity: False is their normal state.
        good = "False" if stated.get("type") in ("Suspended", "Retrying") else "True"
        # Whether the end is measured again explains nothing about the job.
        if (
            stated.get("status") != good
            and text
            and text not in lines
            and stated["type"] not in (RERUNS_CREATED, *skip)
        ):
            lines.append(f"{stated['type']}: {stated.get('reason') or ''}: {text}".replace(": : ", ": "))
    return tuple(lines)


def _new(job: Obj, now: datetime) -> Explanation:
    name, age = name_of(job), since(job["metadata"].get("creationTimestamp"), now)
    manager = spec_of(job).get("managedBy")
    if manager:
        text = f"{name} waits for {manager}, which its spec.managedBy names."
        return Explanation(text)
    namespace = job["metadata"]["namespace"]
    return Explanation(
        f"No operator has looked at {name} yet ({age}).",
        advice=(
            f"see whether one runs for this namespace: kubectl get pods -n {namespace} "
            "-l app.kubernetes.io/name=fournos",
            f"or start one here: fournos run -n {namespace}",
        ),
    )


def _resolving(facts: WaitFacts, now: datetime) -> Explanation:
    job, name = facts.job, name_of(facts.job)
    since_then = since((status_of(job).get("phaseTimes") or {}).get("resolving"), now)
    because = _messages(job)
    advice: tuple[str, ...] = (f"what the resolver prints: fournos logs -f {name}",)
    if not facts.found.resolve_jobs:
        text = f"{name} waits for its resolve Job to be made"
        return Explanation(f"{text} ({since_then}).", because)
    if stuck := problems(facts.found, facts.events):
        text = f"{name}: its resolver cannot start."
        return Explanation(text, (*because, *stuck), advice_for(stuck, key_of(job).namespace))
    text = f"{name} is resolving its requirements"
    return Explanation(f"{text} ({since_then}).", because, advice)


def _held(job: Obj, now: datetime) -> Explanation:
    name, where = name_of(job), status_of(job).get("cluster")
    length = since((status_of(job).get("phaseTimes") or {}).get("admitted"), now)
    text = f"{name} has held {where} for {length}: nothing else runs there until it ends."
    return Explanation(text, advice=(f"give the cluster back: fournos stop {name}",))


def _running(facts: WaitFacts, now: datetime) -> Explanation:
    job, name = facts.job, name_of(facts.job)
    length = since((status_of(job).get("phaseTimes") or {}).get("running"), now)
    advice = (f"what its tasks print: fournos logs -f {name}",)
    if stuck := problems(facts.found, facts.events):
        text = f"{name} has been running for {length}, but a pod of it cannot start."
        helps = advice_for(stuck, key_of(job).namespace)
        return Explanation(text, (*_messages(job), *stuck), (*helps, *advice))
    found = tasks(facts.found.run(job), facts.found.task_runs)
    busy = [f"task {t.name} for {between(t.started, '', now)}" for t in found if t.state == RUNNING]
    on = f" on {status_of(job)['cluster']}" if status_of(job).get("cluster") else ""
    doing = f": {', '.join(busy)}" if busy else ""
    return Explanation(
        f"{name} has been running{on} for {length}{doing}.",
        _messages(job, "PipelineRunReady"),
        advice,
    )


def _ended(facts: WaitFacts, now: datetime) -> Explanation:
    job, name, phase = facts.job, name_of(facts.job), phase_of(facts.job)
    ago = since((status_of(job).get("phaseTimes") or {}).get("finished"), now)
    on = f" on {status_of(job)['cluster']}" if status_of(job).get("cluster") else ""
    verdict = f"{name} has ended: {phase}{on} {ago} ago{_run_length(job, now)}."
    if phase != "Failed":
        return Explanation(verdict, _messages(job) if phase == "Stopped" else ())
    first = failure(job, facts.found)
    causes = {first.task: first.message} if first.task else {}
    broken = [
        f"task {task.name}: {causes.get(task.name, task.message)}"
        for task in tasks(facts.found.run(job), facts.found.task_runs)
        if task.state == FAILED
    ]
    printed = [f"what was printed: fournos logs {name}"] if status_of(job).get("pipelineRun") else []
    if not printed and was_resolved(job, facts.found):
        printed = [f"what the resolver printed: fournos logs --resolver {name}"]
    return Explanation(verdict, (*broken, *_messages(job)), tuple(printed))


def _run_length(job: Obj, now: datetime) -> str:
    began, ended = run_times(job)
    if not began:
        return ""
    which = "its last" if (status_of(job).get("attempt") or 1) > 1 else "a"
    return f", after {which} run of {between(began, ended, now)}"


# --- waiting for quota -----------------------------------------------------------------------------


def _pending(facts: WaitFacts, now: datetime) -> Explanation:
    job, name = facts.job, name_of(facts.job)
    messages = _messages(job)
    if spec_of(job).get("suspend"):
        text = f"{name} is held by its own spec.suspend."
        return Explanation(text, advice=(f"queue it: fournos release {name}",))
    start_at = moment(spec_of(job).get("scheduledStartTime"))
    if start_at and start_at > now:
        wait = between(now.isoformat(), start_at.isoformat(), now)
        return Explanation(
            f"{name} is not queued before {format_time(start_at)} (spec.scheduledStartTime), in {wait}.",
        )
    retry_at = moment(status_of(job).get("retryAt"))
    if retry_at and retry_at > now:
        wait = between(now.isoformat(), retry_at.isoformat(), now)
        return Explanation(
            f"{name} failed and is tried again in {wait}.",
            messages,
        )
    unqueued = ("the messages above say what it needs before that",) if messages else ()
    if kept := kept_from_quota(job, facts.workload, facts, messages, unqueued):
        return kept
    assert facts.workload is not None
    return short(facts, facts.workload, with_kueue(view(facts.workload).message, messages))
