"""Sets the phase and conditions of a running MiniCluster from its Job and pods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import parse_count, parse_time
from fournos.engine.kube.resource import EVENT, Obj, is_terminating, newest, uid_of
from fournos.engine.runtime.decision import LiveList, Present
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.build import KILLED
from fournos.systems.miniclusters.status import (
    READY,
    REQUESTED,
    RUNNING,
    SIDECAR_FAILED,
    WAITING,
    Context,
    index_of,
    over,
    terminal,
)

_HIGHEST = 255


def runner(pod: Obj, name: str) -> dict[str, Any]:
    """Returns the status of the container that runs Flux; empty if there is none."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == name:
            return dict(status)
    return {}


def last_end(pod: Obj, name: str) -> dict[str, Any]:
    """Returns how that container ended, or its run before the current one; empty if neither has ended."""
    status = runner(pod, name)
    for state in (status.get("state") or {}, status.get("lastState") or {}):
        if state.get("terminated"):
            return dict(state["terminated"])
    return {}


def exit_code(pod: Obj, name: str) -> int | None:
    """Returns the exit code of MiniCluster `name` from the pod of its lead broker; None if it has not ended.

    Our script writes the exit code to the termination message when the command has ended by itself. Without
    that message the container was killed. This is not a result, and another pod replaces it. Any other text
    in the message, which the wrapped command may write, is not a result either.
    """
    return parse_count(last_end(pod, name).get("message"), most=_HIGHEST)


def flux_error(pod: Obj, name: str) -> str:
    """Returns the error of the container that runs Flux, as reported by its script or by Kubernetes."""
    ended = (runner(pod, name).get("state") or {}).get("terminated") or {}
    message = str(ended.get("message") or "").strip()
    return message if ended.get("exitCode") and not message.isdigit() else ""


# --- health --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodReadiness:
    """How many pods are running and ready."""

    running: int
    """The pods whose broker container runs."""
    ready: int


def lead_of(ctx: Context) -> Obj | None:
    """Returns the newest pod of index 0. There may be several if a failed pod was replaced."""
    return newest(pod for pod in ctx.pods if index_of(pod) == 0)


def _runs(pod: Obj, name: str) -> bool:
    return "running" in (runner(pod, name).get("state") or {}) and not is_terminating(pod)


def broker_up(pod: Obj, name: str) -> bool:
    """True if the pod is ready: its broker has joined (scripts/ready.sh).

    Sidecars that have ended are ignored, although they make the pod unready.
    """
    if is_terminating(pod):
        return False
    if is_true(pod, "Ready"):
        return True
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    others = [one for one in statuses if one.get("name") != name]
    ended = any("terminated" in (one.get("state") or {}) for one in others)
    stays = all(one.get("ready") or "terminated" in (one.get("state") or {}) for one in others)
    return ended and stays and bool(runner(pod, name).get("ready"))


def ended_well(pod: Obj, name: str) -> dict[str, Any]:
    """Returns the terminated state of the broker's container if its exit code is 0; otherwise {}."""
    ended = (runner(pod, name).get("state") or {}).get("terminated") or {}
    return dict(ended) if ended.get("exitCode") == 0 else {}


def failed_sidecars(ctx: Context) -> str:
    """Returns the message about sidecars that failed by themselves; "" if none has."""
    failures = []
    for pod in ctx.pods:
        flux = (runner(pod, ctx.name).get("state") or {}).get("terminated") or {}
        if is_terminating(pod) or flux.get("exitCode") in (names.STOPPED, *KILLED):
            continue
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            code = ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
            if status.get("name") != ctx.name and code:
                failures.append(
                    f"container {status['name']} of pod {pod['metadata']['name']} with exit code {code}"
                )
    return f"Failed beside Flux: {', '.join(sorted(failures))}" if failures else ""


def report_sidecars(ctx: Context) -> None:
    """Sets the condition of failed sidecars. A failed sidecar does not change the result."""
    if failed := failed_sidecars(ctx):
        ctx.draft.condition(SIDECAR_FAILED, True, "ContainerFailed", failed)


def count(ctx: Context, size: int) -> PodReadiness:
    """Counts the pods with an index below `size`."""
    pods = [pod for pod in ctx.pods if (index_of(pod) or 0) < size]
    running = sum(1 for pod in pods if _runs(pod, ctx.name))
    ready = sum(1 for pod in pods if broker_up(pod, ctx.name))
    return PodReadiness(running, ready)


def survey(ctx: Context, job: Obj, refused: str, hint: str = "") -> None:
    """Writes the state of a Job that has not ended to the draft.

    `hint` is the message of an Event about its pods.
    """
    size = int(job["spec"].get("parallelism", 1))
    pods = count(ctx, size)
    lead = lead_of(ctx)
    ctx.draft.put(ready=pods.ready, jobid=str(job["metadata"]["uid"]))
    ctx.draft.condition(REQUESTED, True, "Created", "The objects of the MiniCluster are there")
    report_sidecars(ctx)
    lead_runs = lead is not None and _runs(lead, ctx.name)
    if lead is not None and not lead_runs and _final(ctx, lead):
        code = exit_code(lead, ctx.name)
        text = f"The lead broker has ended with exit code {code}, its Job is about to end"
        ctx.draft.condition(READY, False, "LeadEnded", text).phased("Running", text)
        return
    counts = f"{pods.running} of {size} pods run, {pods.ready} are ready"
    if lead is not None and lead_runs and ctx.draft.started_at is None:
        state = runner(lead, ctx.name)["state"]["running"]
        ctx.draft.put(startedAt=state.get("startedAt"))
    waiting = pods.running < size
    why = _cause(ctx, job, counts, hint) if waiting else f"{counts}: waiting for the brokers to join"
    ctx.draft.condition(
        WAITING,
        waiting,
        "PodsPending" if waiting else "PodsRunning",
        why if waiting else counts,
    )
    ready = lead_runs and pods.ready >= size
    ctx.draft.condition(RUNNING, lead_runs, "LeadRunning" if lead_runs else "LeadPending", counts)
    ctx.draft.condition(READY, ready, "AllReady" if ready else "NotAllReady", counts)
    if ready:
        phase, message = "Ready", f"All {size} brokers are up"
    elif lead_runs:
        phase, message = "Running", why
    else:
        phase, message = "Waiting", why
    ctx.draft.phased(phase, f"{message}; {refused}" if refused else message)


def _final(ctx: Context, lead: Obj) -> bool:
    """True if the lead broker's end is the MiniCluster's, and only the Job's status does not show it yet."""
    code = exit_code(lead, ctx.name)
    again = bool(code) and ctx.spec.get("backoffLimit") is not None
    return code is not None and not again and ctx.draft.phase in ("Running", "Ready")


def _cause(ctx: Context, job: Obj, counts: str, hint: str) -> str:
    """Returns why pods do not run yet, with Kubernetes' message if there is one."""
    if job["spec"].get("suspend"):
        found = condition(job, "Suspended") or {}
        return str(found.get("message") or "The Job is suspended")
    if not (ctx.spec.get("flux") or {}).get("completeWorkers") and any(
        index_of(pod) and terminal(pod) and ended_well(pod, ctx.name) for pod in ctx.pods
    ):
        return f"{counts}: Flux is shutting down"
    for pod in sorted(ctx.pods, key=lambda pod: index_of(pod) or 0):
        if terminal(pod) or _runs(pod, ctx.name):
            continue
        if text := cause_of(pod) or flux_failed(pod, ctx.name):
            return f"{counts}: {text}"
    return f"{counts}: {hint}" if hint else counts


def flux_failed(pod: Obj, name: str) -> str:
    """Returns what Flux has failed with in a pod that a container beside it keeps; "" if it has not."""
    code = ((runner(pod, name).get("state") or {}).get("terminated") or {}).get("exitCode")
    return flux_error(pod, name) or f"Flux has ended with exit code {code}" if code else ""


def cause_of(pod: Obj) -> str:
    """Returns why this pod does not run, as far as its status shows it."""
    scheduled = condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("message"):
        return str(scheduled["message"])
    status = pod.get("status") or {}
    for container in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        why = (container.get("state") or {}).get("waiting") or {}
        if why.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            return f"{why['reason']}: {why.get('message') or container['name']}"
    return ""


# --- causes --------------------------------------------------------------------------------------------
# Finds why pods do not start when no status shows it, such as a volume that cannot be mounted.
#
# Kubernetes reports such failures in Events only. Events are listed only if a pod has been waiting for a
# while and no status shows a reason, because every list is a live read.

_PATIENCE: Final = timedelta(seconds=15)
_AGAIN: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class StartObstacle:
    """The reason why pods do not start, if one was found."""

    text: str = ""
    look_at: datetime | None = None
    """The time of the next check; None if no pod waits."""


def cause(ctx: Context, job: Obj) -> StartObstacle:
    """Returns the newest warning about the Job or pod that waits."""
    held = _held(ctx, job)
    if held is None:
        return StartObstacle()
    since = parse_time(held["metadata"].get("creationTimestamp") or job["metadata"]["creationTimestamp"])
    if ctx.now < since + _PATIENCE:
        return StartObstacle(look_at=since + _PATIENCE)
    # Selected by UID, not by name: an earlier Job and the MiniCluster itself have the same name.
    question = LiveList(EVENT, ctx.namespace, fields=f"regarding.uid={uid_of(held)},type=Warning")
    answer = ctx.facts.require(question)
    found = answer.value if isinstance(answer, Present) else ()
    newest = max(found, key=_time, default=None)
    text = f"{newest.get('reason')}: {newest.get('note') or ''}" if newest else ""
    return StartObstacle(text, ctx.now + _AGAIN)


def _held(ctx: Context, job: Obj) -> Obj | None:
    """Returns the Job if it has not created all its pods; otherwise the first pod that does not start.

    Pods whose status shows a reason are left out. None if there is nothing to explain.
    """
    if job["spec"].get("suspend") or is_terminating(job):
        return None
    pods = {index_of(pod): pod for pod in sorted(ctx.pods, key=lambda pod: not terminal(pod))}
    ended = over(job)
    for index in range(int(job["spec"].get("parallelism", 1))):
        pod = pods.get(index)
        if pod is None and index in ended:
            continue
        if pod is None:
            return job
        if terminal(pod) or is_terminating(pod) or cause_of(pod):
            continue
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        # The Events of a pod that has started are those of its start, and explain nothing any more.
        if not any({"running", "terminated"} & set(one.get("state") or {}) for one in statuses):
            return pod
    return None


def _time(event: Obj) -> str:
    """Returns the time of the event's latest occurrence, as text."""
    series = (event.get("series") or {}).get("lastObservedTime")
    core = event.get("deprecatedLastTimestamp") or event.get("eventTime")
    return str(series or core or event["metadata"].get("creationTimestamp") or "")
