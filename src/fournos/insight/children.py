"""Reads the objects that a job owns: its Workloads, resolve Jobs, PipelineRuns, TaskRuns and pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fournos.api.kinds import PIPELINE_RUN, TASK_RUN
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError
from fournos.engine.kube.resource import JOB, POD, Obj, Resource, key_of, owner_uids, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.insight.source import Source
from fournos.insight.values import created, moment, name_of, one_line, status_of
from fournos.systems.jobs.names import JOB_NAME_LABEL

RUN_LABEL: Final = "tekton.dev/pipelineRun"
TASK_LABEL: Final = "tekton.dev/pipelineTask"
RUN_KINDS: Final = (PIPELINE_RUN, TASK_RUN)
"""The kinds whose objects change while a job runs."""
RESOURCES: Final = (WORKLOAD, JOB, PIPELINE_RUN, TASK_RUN, POD)


def label_of(obj: Obj, name: str) -> str:
    """Returns the value of a label; "" without it."""
    return str((obj["metadata"].get("labels") or {}).get(name) or "")


def task_of(obj: Obj) -> str:
    """Returns the name of the task in its Pipeline, else that of the object."""
    return label_of(obj, TASK_LABEL) or name_of(obj)


@dataclass(frozen=True, slots=True)
class Children:
    """The objects that a job owns, by kind.  Each tuple is sorted by age, the oldest first."""

    workloads: tuple[Obj, ...] = ()
    resolve_jobs: tuple[Obj, ...] = ()
    runs: tuple[Obj, ...] = ()
    task_runs: tuple[Obj, ...] = ()
    pods: tuple[Obj, ...] = ()

    def run(self, job: Obj) -> Obj | None:
        """The PipelineRun of the current attempt; None if it does not exist."""
        wanted = status_of(job).get("pipelineRun")
        return next((run for run in self.runs if name_of(run) == wanted), None)


def selector(job: Obj) -> str:
    """The label selector that matches all dependents of the job."""
    return f"{JOB_NAME_LABEL}={name_of(job)}"


async def children(source: Source, job: Obj) -> Children:
    """Lists the dependents of the job that exist now.

    A kind that is not installed, or that RBAC does not let us read, counts as having no objects.
    """
    return (await readable_children(source, job))[0]


async def readable_children(source: Source, job: Obj) -> tuple[Children, list[Resource]]:
    """As `children`; also returns the kinds that RBAC does not let us read."""
    namespace, _ = key_of(job)
    forbidden: list[Resource] = []

    async def listed(resource: Resource) -> list[Obj]:
        try:
            return (await source.list(resource, namespace=namespace, selector=selector(job))).items
        except NoSuchResourceError:
            return []
        except ForbiddenError:
            forbidden.append(resource)
            return []

    found = await asyncio.gather(*(listed(resource) for resource in RESOURCES))
    return sort(job, *found), forbidden


def sort(
    job: Obj,
    workloads: Iterable[Obj],
    resolve_jobs: Iterable[Obj],
    runs: Iterable[Obj],
    task_runs: Iterable[Obj],
    pods: Iterable[Obj],
) -> Children:
    """Returns only the objects that this job owns, directly or through an object that it owns.

    The label selector is not enough: it also matches the dependents of an earlier job of the same name.
    """
    mine = frozenset([uid_of(job)])
    owned_runs = _owned(runs, mine)
    owned_tasks = _owned(task_runs, frozenset(map(uid_of, owned_runs)))
    owned_jobs = _owned(resolve_jobs, mine)
    makers = frozenset(map(uid_of, (*owned_tasks, *owned_jobs)))
    return Children(
        workloads=_owned(workloads, mine),
        resolve_jobs=owned_jobs,
        runs=owned_runs,
        task_runs=owned_tasks,
        pods=_owned(pods, makers),
    )


def _owned(objects: Iterable[Obj], owners: frozenset[str]) -> tuple[Obj, ...]:
    return in_order(obj for obj in objects if owner_uids(obj) & owners)


def current_workload(workloads: Iterable[Obj]) -> Obj | None:
    """Returns the Workload of the current attempt, of an object of any kind; None if there is none.

    Of an elastic job it is the newest slice: the one before it goes on until that is admitted.
    """
    live = in_order(workload for workload in workloads if not is_true(workload, "Finished"))
    return live[-1] if live else None


def in_order(objects: Iterable[Obj]) -> tuple[Obj, ...]:
    """Returns the objects in the order of their creation, as `Children` has them."""
    return tuple(sorted(objects, key=lambda obj: (created(obj), name_of(obj))))


WAITING: Final = "Waiting"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
CANCELLED: Final = "Cancelled"
SKIPPED: Final = "Skipped"


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a PipelineRun.  The times are RFC 3339, "" if not set."""

    name: str
    """The name in the Pipeline."""
    state: str
    started: str = ""
    finished: str = ""
    message: str = ""
    """The reason why it failed or was skipped."""
    pod: str = ""
    final: bool = False
    """True for a finally task."""


def tasks(run: Obj | None, task_runs: Iterable[Obj]) -> list[Task]:
    """The tasks in the Pipeline's order; empty until Tekton has written the Pipeline into the status."""
    if run is None:
        return []
    status = status_of(run)
    by_task: dict[str, Obj] = {}
    mine = {reference["name"] for reference in status.get("childReferences") or ()}
    for task_run in task_runs:
        labels = task_run["metadata"].get("labels") or {}
        if name_of(task_run) in mine or labels.get("tekton.dev/pipelineRun") == name_of(run):
            by_task[str(labels.get(TASK_LABEL) or name_of(task_run))] = task_run
    skipped = {entry["name"]: one_line(entry.get("reason")) for entry in status.get("skippedTasks") or ()}
    plan = status.get("pipelineSpec") or {}
    result = []
    for section in ("tasks", "finally"):
        for entry in plan.get(section) or ():
            found = by_task.pop(entry["name"], None)
            result.append(_task(entry["name"], found, skipped, final=section == "finally"))
    return result + [_task(name, found, skipped, final=False) for name, found in by_task.items()]


def _task(name: str, task_run: Obj | None, skipped: Mapping[str, str], *, final: bool) -> Task:
    if task_run is None:
        if name in skipped:
            return Task(name, SKIPPED, message=skipped[name], final=final)
        return Task(name, WAITING, final=final)
    status: Mapping[str, Any] = status_of(task_run)
    verdict = condition(task_run, "Succeeded") or {}
    reason = str(verdict.get("reason") or "")
    match verdict.get("status"):
        case "True":
            state = SUCCEEDED
        case "False":
            state = CANCELLED if reason == "TaskRunCancelled" else FAILED
        case _:
            state = RUNNING if status.get("startTime") else WAITING
    return Task(
        name,
        state,
        started=str(status.get("startTime") or ""),
        finished=str(status.get("completionTime") or ""),
        message="" if state == SUCCEEDED else one_line(verdict.get("message")),
        pod=str(status.get("podName") or ""),
        final=final,
    )


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


def _pods_of_runs(dependents: Children) -> Iterator[Obj]:
    """The pods of tasks; a resolver's pod is not part of the run."""
    resolvers = {str(job["metadata"]["uid"]) for job in dependents.resolve_jobs}
    for pod in dependents.pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        if not any(one.get("uid") in resolvers for one in owners):
            yield pod


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
