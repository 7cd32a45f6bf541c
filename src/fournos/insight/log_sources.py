"""Selects the containers whose logs make up the log of a job.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from fournos.api.phase import BEFORE_RUN, NEW, UNQUEUED
from fournos.engine.kube.resource import Key, Obj, key_of, owner_uids, uid_of
from fournos.insight.children import RUN_LABEL, TASK_LABEL, Children, label_of, task_of
from fournos.insight.errors import NoLogError
from fournos.insight.values import created, name_of, phase_of, status_of
from fournos.systems.jobs.names import attempt_name

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
        return NoLogError(
            f"{name} ended before a task began",
            fix=f"what the resolver printed: fournos logs --resolver {name}; why: fournos explain {name}",
        )
    return NoLogError(
        f"the pods of {name} are gone, and their logs with them",
        fix="look in the log store of your cluster"
        + (f"; the run's page: {url}" if (url := status_of(job).get("dashboardURL")) else ""),
    )
