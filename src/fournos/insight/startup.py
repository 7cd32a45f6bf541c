"""When the first container of a run started, and what a run without one waits for.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from fournos.api.phase import Cause
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Obj
from fournos.insight.children import Children
from fournos.insight.values import moment, name_of, one_line, spec_of, status_of

_IMAGE: Final = re.compile(r"ImagePull|ErrImage|InvalidImageName")
"""Reasons of the kubelet for a container whose image is not there yet."""


def started_at(dependents: Children) -> datetime | None:
    """Returns when the first container of a run started; None if none has.

    Tekton writes the start of each step into the TaskRun, where it outlives the pod.
    """
    moments = [
        *_steps(dependents.task_runs),
        *(at for pod in _pods_of_runs(dependents) for at in _containers(pod)),
    ]
    return min(moments, default=None)


def has_started(obj: Obj) -> bool:
    """True if a container of this pod, or a step of this TaskRun, has started."""
    return any(True for _ in (*_steps((obj,)), *_containers(obj)))


def starting(job: Obj, dependents: Children) -> tuple[Cause, str] | None:
    """Returns what a job in phase Running waits for, as long as no container of its run has started."""
    run, name = dependents.run(job), name_of(job)
    if run is None or started_at(dependents) is not None or status_of(run).get("completionTime"):
        return None
    waiting = [pod for pod in _pods_of_runs(dependents) if not _pod_ended(pod)]
    if not waiting:
        return Cause.DISPATCH, f"{name} waits for Tekton to make the pods of its run."
    reasons = [pod_waits_for(pod) for pod in waiting]
    return next((one for one in reasons if one[0] is not Cause.STARTING), reasons[0])


def pod_waits_for(pod: Obj) -> tuple[Cause, str]:
    """Returns what a pod without a started container waits for."""
    name, scheduled = name_of(pod), condition(pod, "PodScheduled") or {}
    if not spec_of(pod).get("nodeName") and scheduled.get("status") != "True":
        text = one_line(scheduled.get("message"))
        return Cause.SCHEDULING, f"pod {name} waits for a node{': ' + text if text else ''}"
    for status in _statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if _IMAGE.search(str(waiting.get("reason") or "")):
            return Cause.IMAGE_PULL, f"pod {name} waits for image {status.get('image')}: {waiting['reason']}"
    return Cause.STARTING, f"pod {name} is on its node; none of its containers has started"


def _pods_of_runs(dependents: Children) -> Iterator[Obj]:
    """The pods of tasks; a resolver's pod is not part of the run."""
    resolvers = {str(job["metadata"]["uid"]) for job in dependents.resolve_jobs}
    for pod in dependents.pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        if not any(one.get("uid") in resolvers for one in owners):
            yield pod


def _pod_ended(pod: Obj) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def _statuses(pod: Obj) -> Iterable[Mapping[str, Any]]:
    status = status_of(pod)
    return (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))


def _containers(pod: Obj) -> Iterator[datetime]:
    for status in status_of(pod).get("containerStatuses") or ():
        yield from _starts(status.get("state") or {})


def _steps(task_runs: Iterable[Obj]) -> Iterator[datetime]:
    for task_run in task_runs:
        for step in status_of(task_run).get("steps") or ():
            yield from _starts(step)


def _starts(state: Mapping[str, Any]) -> Iterator[datetime]:
    for how in ("running", "terminated"):
        if at := moment((state.get(how) or {}).get("startedAt")):
            yield at
