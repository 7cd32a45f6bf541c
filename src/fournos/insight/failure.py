"""Classifies the failure of a job: its category and the first error of the chain.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from fournos.api.phase import BEFORE_RUN, NEW, UNQUEUED
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Key, Obj, key_of, owner_uids, uid_of
from fournos.insight.children import RUN_LABEL, TASK_LABEL, Children, label_of, task_of
from fournos.insight.errors import NoLogError
from fournos.insight.values import created, name_of, one_line, phase_of, spec_of, status_of
from fournos.systems.jobs.names import attempt_name


class Category(StrEnum):
    """The cause of a failure."""

    BENCHMARK = "benchmark"
    """A task of the Pipeline ended with an error of its own."""
    REQUEST = "request"
    """The job requests something that does not exist or that it is not permitted to use."""
    RESOLVER = "resolver"
    IMAGE_PULL = "image-pull"
    NODE_LOST = "node-lost"
    EVICTED = "evicted"
    TIMEOUT = "timeout"
    INFRASTRUCTURE = "infrastructure"
    """Any other failure that a change of the benchmark does not fix."""

    @property
    def infrastructure(self) -> bool:
        """True if the same job may succeed when it is retried."""
        return self not in (Category.BENCHMARK, Category.REQUEST, Category.RESOLVER)


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a job: its category and first error."""

    category: Category
    message: str
    """The first error, not the last.  The errors that it caused are left out."""
    task: str = ""
    """The task of the Pipeline that failed first; "" if no task failed."""
    pod: str = ""


_SIGNS: Final = (
    (Category.IMAGE_PULL, re.compile(r"ImagePull|ErrImage|InvalidImageName|failed to pull image", re.I)),
    (
        Category.NODE_LOST,
        re.compile(r"NodeLost|NodeShutdown|node was (lost|deleted)", re.I),
    ),
    (Category.EVICTED, re.compile(r"Evicted|Preempt|DisruptionTarget", re.I)),
    (Category.TIMEOUT, re.compile(r"Timeout|TimedOut|DeadlineExceeded|failed to finish within", re.I)),
    (Category.INFRASTRUCTURE, re.compile(r"CreationFailed|CreateContainer|CouldntGet|Quota", re.I)),
)
"""Patterns for the reasons and messages of the kubelet and of Tekton; the first match wins."""

_LONGEST: Final = 500
"""Characters of a termination message; the kubelet keeps up to 4096 bytes of a log's end."""

_CONDITIONS: Final = {
    "Resolved": {"Failed": Category.RESOLVER, "CreateFailed": Category.INFRASTRUCTURE},
    "WorkloadAdmitted": {
        "PendingTimeout": Category.TIMEOUT,
        "NoFlavorAssigned": Category.INFRASTRUCTURE,
        "WorkloadFailed": Category.INFRASTRUCTURE,
    },
    "PipelineRunReady": {
        "Failed": Category.BENCHMARK,
        "NotFound": Category.INFRASTRUCTURE,
        "CreateFailed": Category.INFRASTRUCTURE,
        "KubeconfigNotFound": Category.INFRASTRUCTURE,
    },
}
"""Condition → reason → category.  Any other reason of a False condition is of the category REQUEST."""


def failure(job: Obj, dependents: Children) -> Failure:
    """Returns the failure of a job in phase Failed; `dependents` are those that still exist."""
    run = dependents.run(job)
    if run is not None and (first := _first_task(run, dependents)):
        return first
    message = one_line(status_of(job).get("message")) or "no reason is given"
    if run is not None:
        verdict = condition(run, "Succeeded") or {}
        reason, text = str(verdict.get("reason") or ""), one_line(verdict.get("message"))
        if category := _sign(reason):
            return Failure(category, text or message)
    if verdicts := [verdict for type_ in _CONDITIONS if _is_false(verdict := condition(job, type_) or {})]:
        # An earlier attempt may have left a False condition, so the newest transition wins.  Times are whole
        # seconds: on a tie the condition of the later stage wins.
        verdict = max(reversed(verdicts), key=lambda verdict: str(verdict.get("lastTransitionTime") or ""))
        text = one_line(verdict.get("message")) or message
        category = _CONDITIONS[str(verdict["type"])].get(str(verdict.get("reason")), Category.REQUEST)
        if category in (Category.RESOLVER, Category.BENCHMARK):
            category = _sign(text) or category
        return Failure(category, text)
    return Failure(_sign(message) or Category.INFRASTRUCTURE, message)


def _is_false(verdict: Mapping[str, Any]) -> bool:
    return verdict.get("status") == "False"


def _first_task(run: Obj, dependents: Children) -> Failure | None:
    """Returns the failure of the first failed task of the current attempt; None if no task failed.

    The error comes from the pod or the steps of the task.
    """
    failed = [task for task in dependents.task_runs if _of(task, run) and _failed(task)]
    failed.sort(key=lambda task: (str(status_of(task).get("completionTime") or "~"), name_of(task)))
    if not failed:
        return None
    task = failed[0]
    verdict = condition(task, "Succeeded") or {}
    pod = next((one for one in dependents.pods if name_of(one) == status_of(task).get("podName")), None)
    reason, text = str(verdict.get("reason") or ""), one_line(verdict.get("message"))
    category, cause = _of_pod(pod) if pod is not None else (None, "")
    category = category or _sign(reason) or Category.BENCHMARK
    if category is Category.BENCHMARK:
        cause = _of_steps(status_of(task).get("steps") or ()) or _said(pod, text or reason)
        category = _sign(cause) or category
    return Failure(
        category, cause or text or reason, task_of(task), str(status_of(task).get("podName") or "")
    )


def _of(task: Obj, run: Obj) -> bool:
    return any(one.get("uid") == run["metadata"]["uid"] for one in task["metadata"]["ownerReferences"])


def _failed(task: Obj) -> bool:
    verdict = condition(task, "Succeeded") or {}
    return verdict.get("status") == "False" and verdict.get("reason") != "TaskRunCancelled"


def _of_pod(pod: Obj) -> tuple[Category | None, str]:
    """Returns the category and message of a failure that no step caused; (None, "") if there is none."""
    status = status_of(pod)
    if category := _sign(str(status.get("reason") or "")):
        return category, one_line(status.get("message")) or str(status["reason"])
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if category := _sign(str(waiting.get("reason") or "")):
            return category, f"{waiting['reason']}: {one_line(waiting.get('message'))}".removesuffix(": ")
    disrupted = condition(pod, "DisruptionTarget") or {}
    if disrupted.get("status") == "True":
        return Category.EVICTED, one_line(disrupted.get("message")) or str(disrupted.get("reason"))
    return None, ""


def _of_steps(steps: Iterable[Mapping[str, Any]]) -> str:
    """The error of the first step that failed; Tekton skips the steps after it."""
    for step in steps:
        ended = step.get("terminated") or {}
        code = ended.get("exitCode")
        if code and ended.get("reason") != "Skipped":
            why = f" ({ended['reason']})" if ended.get("reason") not in (None, "Error", "Completed") else ""
            last = f"step {step.get('name')} ended with exit code {code}{why}"
            own = _own_words(ended)
            return f"{own} ({last})" if own else last
    return ""


def _said(pod: Obj | None, verdict: str) -> str:
    """The message with which a container of the pod failed, before Tekton's verdict; "" without one."""
    for container in (status_of(pod).get("containerStatuses") or ()) if pod is not None else ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode") and (own := _own_words(ended)):
            return f"{own} ({verdict})"
    return ""


def _own_words(ended: Mapping[str, Any]) -> str:
    """The termination message that the program wrote; "" for Tekton's own, which is a JSON array."""
    message = one_line(ended.get("message"))
    if message.startswith("[{") and message.endswith("}]"):
        return ""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"


def _sign(text: str) -> Category | None:
    return next((category for category, sign in _SIGNS if text and sign.search(text)), None)


_STEP: Final = "step-"
RESOLVER: Final = "resolver"


@dataclass(frozen=True, slots=True)
class LogSource:
    """A container whose log is requested."""

    pod: Key
    container: str
    prefix: str
    started: bool
    """True if the container has started, so that its log exists."""


@dataclass(frozen=True, slots=True)
class WantedLogs:
    """Which logs are requested."""

    resolver: bool = False
    tasks: bool = True
    task: str | None = None
    attempt: int | None = None

    def in_phase_of(self, job: Obj, *, follow: bool) -> WantedLogs:
        """Returns which of them are read of the job now.

        A job that is New or Resolving has no log but the resolver's: that is read in place of the tasks', and
        with `follow` before them, unless a task or an attempt is requested.
        """
        if self.task or self.attempt or phase_of(job) not in UNQUEUED:
            return self
        return replace(self, resolver=True, tasks=self.tasks and follow)


def sources(job: Obj, dependents: Children, logs: WantedLogs) -> list[LogSource]:
    """The requested containers, in the order in which their pods started; steps are in the task's order."""
    found_sources: list[LogSource] = []
    if logs.resolver:
        makers = frozenset(map(uid_of, dependents.resolve_jobs))
        pods = [pod for pod in dependents.pods if owner_uids(pod) & makers]
        found_sources = [source for pod in pods for source in _containers(pod, RESOLVER)]
    if not logs.tasks:
        return found_sources
    run = _run_of(job, logs.attempt) if logs.attempt else str(status_of(job).get("pipelineRun") or "")
    pods = [pod for pod in dependents.pods if run and label_of(pod, RUN_LABEL) == run]
    if logs.task:
        pods = [pod for pod in pods if label_of(pod, TASK_LABEL) == logs.task]
    pods.sort(key=lambda pod: (str(status_of(pod).get("startTime") or created(pod)), name_of(pod)))
    for pod in pods:
        found_sources += _containers(pod, task_of(pod))
    return found_sources


def _run_of(job: Obj, attempt: int) -> str:
    attempts = status_of(job).get("attempts") or ()
    written = next((one.get("pipelineRun") for one in attempts if one["number"] == attempt), None)
    return str(written or attempt_name(name_of(job), attempt))


def _containers(pod: Obj, prefix: str) -> Iterable[LogSource]:
    names = [container["name"] for container in (pod.get("spec") or {}).get("containers") or ()]
    states = {c["name"]: c.get("state") or {} for c in status_of(pod).get("containerStatuses") or ()}
    for name in names:
        state = states.get(name) or {}
        started = "running" in state or "terminated" in state
        step = name.removeprefix(_STEP)
        label = f"{prefix}/{step}" if len(names) > 1 else prefix
        yield LogSource(key_of(pod), name, label, started)


def was_resolved(job: Obj, dependents: Children) -> bool:
    """True if a resolver has run for the job, as far as its status and its resolve Jobs show."""
    verdict = condition(job, "Resolved") or {}
    ended = verdict.get("reason") in ("Failed", "Resolved") and not spec_of(job).get("lockOnly")
    return ended or bool(dependents.resolve_jobs)


def nothing(job: Obj, dependents: Children, logs: WantedLogs) -> NoLogError:
    """Returns the error that explains why no log exists."""
    name, phase = name_of(job), phase_of(job)
    if logs.task:
        tasks = sorted({label_of(t, TASK_LABEL) for t in dependents.task_runs} - {""})
        if tasks and logs.task not in tasks:
            fix = f"tasks that have begun: {', '.join(tasks)}"
            return NoLogError(f"task {logs.task} of {name} has not begun", fix=fix)
    if not logs.tasks and not dependents.resolve_jobs:
        return NoLogError(
            f"{name} has no resolve Job: {'it has not begun' if phase == NEW else 'it was removed'}",
            fix=f"see the job: fournos get {name}",
        )
    if phase in BEFORE_RUN:
        return NoLogError(
            f"{name} is {phase}: no task has begun",
            fix=f"why it waits: fournos explain {name}; wait for lines: fournos logs -f {name}",
        )
    if not status_of(job).get("pipelineRun"):
        resolver = f"what the resolver printed: fournos logs --resolver {name}; "
        fix = f"{resolver if was_resolved(job, dependents) else ''}why: fournos explain {name}"
        return NoLogError(f"{name} ended before a task began", fix=fix)
    return NoLogError(
        f"the pods of {name} are gone, and their logs with them",
        fix="look in the log store of your cluster"
        + (f"; the run's page: {url}" if (url := status_of(job).get("dashboardURL")) else ""),
    )
