"""Explains why a job waits and what to do about it, from facts that are already read.  Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.times import format_time
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.state import QueueState, view
from fournos.insight.causes import Cause
from fournos.insight.explanation import Explanation
from fournos.insight.facts import Facts
from fournos.insight.failure import failure
from fournos.insight.kueue_reasons import kueue_reason
from fournos.insight.shortage import short
from fournos.insight.startup import starting
from fournos.insight.tasks import FAILED, RUNNING, tasks
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
from fournos.systems.jobs.names import ARCHIVED, RERUNS_CREATED


def explain(facts: Facts, now: datetime) -> Explanation:
    """Explains the phase of the job."""
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
            return Explanation(text, _messages(job), advice, cause=Cause.DISPATCH)
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


def _messages(job: Obj, *skip: str) -> tuple[str, ...]:
    """The status message, and each condition that reports a problem, without the types in `skip`."""
    status = status_of(job)
    message = one_line(status.get("message"))
    lines = [message] if message else []
    for found in status.get("conditions") or ():
        text = one_line(found.get("message"))
        # Suspended and Retrying have negative polarity: False is their normal state.
        good = "False" if found.get("type") in ("Suspended", "Retrying") else "True"
        # Whether the end is recorded, or measured again, explains nothing about the job.
        if (
            found.get("status") != good
            and text
            and text not in lines
            and found["type"] not in (ARCHIVED, RERUNS_CREATED, *skip)
        ):
            lines.append(f"{found['type']}: {found.get('reason') or ''}: {text}".replace(": : ", ": "))
    return tuple(lines)


def _new(job: Obj, now: datetime) -> Explanation:
    name, age = name_of(job), since(job["metadata"].get("creationTimestamp"), now)
    manager = spec_of(job).get("managedBy")
    if manager:
        text = f"{name} waits for {manager}, which its spec.managedBy names."
        return Explanation(text, cause=Cause.OPERATOR)
    namespace = job["metadata"]["namespace"]
    return Explanation(
        f"No operator has looked at {name} yet ({age}).",
        advice=(
            f"see whether one runs for this namespace: kubectl get pods -n {namespace} "
            "-l app.kubernetes.io/name=fournos",
            f"or start one here: fournos run -n {namespace}",
        ),
        cause=Cause.OPERATOR,
        ageless=f"No operator has looked at {name} yet.",
    )


def _resolving(facts: Facts, now: datetime) -> Explanation:
    job, name = facts.job, name_of(facts.job)
    since_then = since((status_of(job).get("phaseTimes") or {}).get("resolving"), now)
    because = _messages(job)
    advice: tuple[str, ...] = (f"what the resolver prints: fournos logs -f {name}",)
    if not facts.found.resolve_jobs:
        text = f"{name} waits for its resolve Job to be made"
        return Explanation(f"{text} ({since_then}).", because, cause=Cause.RESOLVER, ageless=f"{text}.")
    stuck = [problem for pod in facts.found.pods if (problem := pod_problem(pod))]
    if stuck:
        advice = ("correct the annotation fournos.dev/resolve-image of the Pipeline, or the image", *advice)
        text = f"{name}: its resolver cannot start."
        return Explanation(text, (*because, *stuck), advice, cause=Cause.RESOLVER)
    text = f"{name} is resolving its requirements"
    return Explanation(f"{text} ({since_then}).", because, advice, cause=Cause.RESOLVER, ageless=f"{text}.")


def pod_problem(pod: Obj) -> str:
    """Returns why a pod does not run; "" if it runs or is still starting."""
    status = status_of(pod)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            text = one_line(waiting.get("message"))
            return f"pod {name_of(pod)}: {waiting['reason']}{': ' + text if text else ''}"
    scheduled = condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        return f"pod {name_of(pod)}: {scheduled.get('reason')}: {one_line(scheduled.get('message'))}"
    return ""


def _held(job: Obj, now: datetime) -> Explanation:
    name, where = name_of(job), status_of(job).get("cluster")
    length = since((status_of(job).get("phaseTimes") or {}).get("admitted"), now)
    text = f"{name} does not wait, it has held {where} for {length}: nothing runs there until it ends."
    return Explanation(text, advice=(f"give the cluster back: fournos stop {name}",))


def _running(facts: Facts, now: datetime) -> Explanation:
    job, name = facts.job, name_of(facts.job)
    length = since((status_of(job).get("phaseTimes") or {}).get("running"), now)
    stuck = tuple(problem for pod in facts.found.pods if (problem := pod_problem(pod)))
    advice = (f"what its tasks print: fournos logs -f {name}",)
    cause, ageless = starting(job, facts.found) or (None, "")
    if stuck:
        text = f"{name} runs, but a pod of it cannot."
        return Explanation(text, (*_messages(job), *stuck), advice, cause=cause, ageless=ageless)
    found = tasks(facts.found.run(job), facts.found.task_runs)
    busy = [f"task {t.name} for {between(t.started, '', now)}" for t in found if t.state == RUNNING]
    on = f" on {status_of(job)['cluster']}" if status_of(job).get("cluster") else ""
    doing = f": {', '.join(busy)}" if busy else ""
    return Explanation(
        f"{name} does not wait, it has run{on} for {length}{doing}.",
        _messages(job, "PipelineRunReady"),
        advice,
        cause=cause,
        ageless=ageless,
    )


def _ended(facts: Facts, now: datetime) -> Explanation:
    job, name, phase = facts.job, name_of(facts.job), phase_of(facts.job)
    ago = since((status_of(job).get("phaseTimes") or {}).get("finished"), now)
    on = f" on {status_of(job)['cluster']}" if status_of(job).get("cluster") else ""
    verdict = f"{name} does not wait, it has ended: {phase}{on} {ago} ago{_run_length(job, now)}."
    if phase != "Failed":
        return Explanation(verdict, _messages(job) if phase == "Stopped" else ())
    first = failure(job, facts.found)
    causes = {first.task: first.message} if first.task else {}
    broken = [
        f"task {task.name}: {causes.get(task.name, task.message)}"
        for task in tasks(facts.found.run(job), facts.found.task_runs)
        if task.state == FAILED
    ]
    run = status_of(job).get("pipelineRun")
    which = "" if run else " --resolver"
    return Explanation(
        verdict, (*broken, *_messages(job)), (f"what was printed: fournos logs{which} {name}",)
    )


def _run_length(job: Obj, now: datetime) -> str:
    times = status_of(job).get("phaseTimes") or {}
    if not times.get("running"):
        return ""
    which = "its last" if (status_of(job).get("attempt") or 1) > 1 else "a"
    return f", after {which} run of {between(times['running'], times.get('finished'), now)}"


# --- waiting for quota -----------------------------------------------------------------------------


def _pending(facts: Facts, now: datetime) -> Explanation:
    job, name = facts.job, name_of(facts.job)
    messages = _messages(job)
    if spec_of(job).get("suspend"):
        fix = patch_command("fournosjob", job, '{"spec":{"suspend":false}}')
        text = f"{name} is suspended by its own spec.suspend."
        return Explanation(text, advice=(f"queue it: {fix}",), cause=Cause.SUSPENDED)
    retry_at = moment(status_of(job).get("retryAt"))
    if retry_at and retry_at > now:
        wait = between(now.isoformat(), retry_at.isoformat(), now)
        return Explanation(
            f"{name} failed and is tried again in {wait}.",
            messages,
            cause=Cause.RETRY,
            ageless=f"{name} failed and is tried again at {format_time(retry_at)}.",
        )
    if broken := queue_problem(facts):
        return replace(broken, because=(*broken.because, *messages))
    workload = facts.workload
    if workload is None:
        return Explanation(
            f"{name} is not queued yet.",
            messages,
            ("the messages above say what it needs before that",) if messages else (),
            cause=Cause.OPERATOR,
        )
    queue = view(workload)
    if not queue.active:
        fix = patch_command("workload", workload, '{"spec":{"active":true}}')
        text = f"{name} was deactivated in Kueue."
        return Explanation(text, messages, (f"queue it again: {fix}",), cause=Cause.SUSPENDED)
    if queue.state is QueueState.WAITING and is_true(workload, "QuotaReserved"):
        return Explanation(
            f"{name} has its quota, and waits for admission checks.",
            tuple(filter(None, (queue.message, *messages))),
            cause=Cause.ADMISSION_CHECK,
        )
    because = with_kueue(queue.message, messages)
    if by_kueue := kueue_reason(name, workload, because):
        return by_kueue
    if not isinstance(facts.cluster_queue, dict):
        return Explanation(f"{name} waits for Kueue to admit it.", because, cause=Cause.UNKNOWN)
    return short(facts, workload, facts.quota(workload), because)


def patch_command(kind: str, obj: Obj, body: str) -> str:
    """The kubectl command that applies the merge patch `body` to the object."""
    key = key_of(obj)
    return f"kubectl patch {kind} {key.name} -n {key.namespace} --type merge -p '{body}'"


def with_kueue(message: str, messages: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the lines `messages` plus Kueue's message, unless one of them contains it already."""
    text = one_line(message)
    return messages if not text or any(text in line for line in messages) else (*messages, f"Kueue: {text}")


def queue_problem(facts: Facts) -> Explanation | None:
    """Returns the explanation if the LocalQueue or ClusterQueue itself has a problem, else None."""
    found = _queue_problem(facts)
    return replace(found, cause=Cause.QUEUE_STOPPED) if found else None


def _queue_problem(facts: Facts) -> Explanation | None:
    name, namespace = name_of(facts.job), facts.job["metadata"]["namespace"]
    local, cluster = facts.local_queue, facts.cluster_queue
    match local:
        case NoSuchResourceError():
            return Explanation(
                f"{name} waits for Kueue, which is not installed.",
                advice=("ask an administrator to install Kueue",),
            )
        case NotFoundError():
            return Explanation(
                f"{name} waits for LocalQueue {facts.queue_name}, which namespace {namespace} does not have.",
                advice=(
                    f"create it by kubectl apply, as the one in manifests/deployment.yaml (-n {namespace})",
                    f"and let the namespace in: kubectl label ns/{namespace} fournos.dev/queue-access=true",
                ),
            )
        case ForbiddenError():
            return None
    above = str(spec_of(local).get("clusterQueue")) if isinstance(local, dict) else ""
    if isinstance(cluster, NotFoundError):
        return Explanation(
            f"{name} waits for ClusterQueue {above}, which does not exist.",
            advice=("create it: kubectl apply -f config/kueue-config.yaml",),
        )
    for kind, queue in (("ClusterQueue", cluster), ("LocalQueue", local)):
        if not isinstance(queue, dict):
            continue
        policy = spec_of(queue).get("stopPolicy") or "None"
        if policy != "None":
            return Explanation(
                f"{name} waits: {kind} {name_of(queue)} is stopped (stopPolicy {policy}).",
                advice=("wait until an administrator sets stopPolicy to None",),
            )
        active = condition(queue, "Active") or {}
        if active.get("status") == "False":
            return Explanation(
                f"{name} waits: {kind} {name_of(queue)} is not active.",
                (f"{active.get('reason')}: {one_line(active.get('message'))}",),
                ("ask an administrator to repair the queue",),
            )
    return None
