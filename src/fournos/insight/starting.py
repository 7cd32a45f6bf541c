"""What keeps the pods of an object from starting, and what helps: their states, and the events about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import EVENT, Obj, key_of, owner_uids, uid_of
from fournos.insight.children import Children, has_started, task_of
from fournos.insight.source import Source, or_error
from fournos.insight.values import name_of, one_line, pod_phase, status_of

_READ: Final = 10
"""The objects whose events are read; each takes a request."""
_ADVICE: Final = (
    (r"exceeded quota", "ask for less, or have it raised: kubectl describe resourcequota -n {namespace}"),
    (
        r"LimitRange|limit to request ratio|usage per (Container|Pod)",
        "see what is allowed: kubectl describe limitrange -n {namespace}",
    ),
    (
        r"service ?account .*not found",
        "create it in namespace {namespace}, as in manifests/rbac/serviceaccounts.yaml",
    ),
    (
        r"ImagePull|ErrImage|InvalidImageName",
        "correct the image, or its pull secret; a resolver's image is the annotation "
        "fournos.dev/resolve-image of the Pipeline",
    ),
    (
        r"(configmap|secret) .*not found|CreateContainerConfigError",
        "create what is named, with its keys, in namespace {namespace}",
    ),
    (
        r"PersistentVolumeClaim|StorageClass",
        "see why the claim is not bound: kubectl describe pvc -n {namespace}",
    ),
    (r"Unschedulable|FailedScheduling", "ask for less, or see what nodes have: kubectl describe nodes"),
)
"""Patterns for what keeps a pod from starting → what helps; the first match wins."""
_STARTS: Final = frozenset({"Started", "Running", "Pending", "PodPending"})
"""Tekton's reasons for a TaskRun that goes on by itself."""


def pod_problem(pod: Obj) -> str:
    """Returns why a pod does not run, by its own status; "" if it runs or is still starting."""
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


async def read_events(source: Source, children: Children) -> tuple[Obj, ...]:
    """Reads the events of what has not started: resolve Jobs without a pod, and pods without a container.

    Without the right to read events there are none.
    """
    events: list[Obj] = []
    for obj in _unstarted(children)[:_READ]:
        fields = f"regarding.uid={uid_of(obj)}"
        listing = await or_error(source.list(EVENT, namespace=key_of(obj).namespace, fields=fields))
        events += [] if isinstance(listing, KubeError) else listing.items
    return tuple(events)


def _unstarted(children: Children) -> list[Obj]:
    pods = [pod for pod in children.pods if pod_phase(pod) == "Pending" and not has_started(pod)]
    owners = frozenset().union(*map(owner_uids, children.pods))
    jobs = [job for job in children.resolve_jobs if uid_of(job) not in owners]
    return [*(job for job in jobs if not status_of(job).get("conditions")), *pods]


def problems(children: Children, events: Iterable[Obj]) -> tuple[str, ...]:
    """Returns what keeps the pods of a job from starting, one line each."""
    newest: dict[str, str] = {}
    for event in sorted(events, key=_at):
        if event.get("type") == "Warning":
            about = str((event.get("regarding") or {}).get("uid"))
            newest[about] = f"{event.get('reason')}: {one_line(event.get('note'))}"
    lines = []
    unstarted = _unstarted(children)
    for obj in unstarted:
        kind = "Job" if obj in children.resolve_jobs else "pod"
        text = pod_problem(obj) if kind == "pod" else ""
        if not text and uid_of(obj) in newest:
            text = f"{kind} {name_of(obj)}: {newest[uid_of(obj)]}"
        lines.append(text)
    done = {uid_of(obj) for obj in unstarted}
    lines += [pod_problem(pod) for pod in children.pods if uid_of(pod) not in done]
    lines += map(_task_problem, children.task_runs)
    return tuple(dict.fromkeys(filter(None, lines)))


async def not_starting(source: Source, pods: Sequence[Obj], jobs: Sequence[Obj]) -> tuple[str, ...]:
    """As `problems`, of the pods of another kind, and of the Jobs that make them."""
    children = Children(resolve_jobs=tuple(jobs), pods=tuple(pods))
    return problems(children, await read_events(source, children))


def _task_problem(task_run: Obj) -> str:
    """Returns why Tekton makes no pod of a task, such as ExceededResourceQuota; "" if it has or will."""
    verdict = condition(task_run, "Succeeded") or {}
    if verdict.get("status") != "Unknown" or status_of(task_run).get("podName"):
        return ""
    reason = str(verdict.get("reason") or "")
    if not reason or reason in _STARTS:
        return ""
    return f"task {task_of(task_run)}: {reason}: {one_line(verdict.get('message'))}"


def _at(event: Obj) -> str:
    """The last time of an event, of the old and the new API."""
    series = (event.get("series") or {}).get("lastObservedTime")
    own = event.get("eventTime") or event.get("deprecatedLastTimestamp")
    return str(series or own or event["metadata"].get("creationTimestamp") or "")


def advice(lines: Iterable[str], namespace: str) -> tuple[str, ...]:
    """Returns what helps against these problems."""
    texts = (
        next((text for pattern, text in _ADVICE if re.search(pattern, line, re.I)), "") for line in lines
    )
    return tuple(dict.fromkeys(text.format(namespace=namespace) for text in texts if text))
