"""Sets the phase and conditions of a running MiniCluster from its Job and pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, is_terminating, newest
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.context import Context, index_of, terminal
from fournos.systems.miniclusters.exit_code import exit_code, runner
from fournos.systems.miniclusters.indexed_job import KILLED
from fournos.systems.miniclusters.status import READY, REQUESTED, RUNNING, SIDECAR_FAILED, WAITING


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
        if not terminal(pod) and not _runs(pod, ctx.name) and (text := cause_of(pod)):
            return f"{counts}: {text}"
    return f"{counts}: {hint}" if hint else counts


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
