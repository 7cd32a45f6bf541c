"""The tasks of a PipelineRun and the state of each (Tekton's v1 API).  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Obj
from fournos.insight.children import TASK_LABEL
from fournos.insight.values import name_of, one_line, status_of

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
