"""The life of a job as the recorder of the history sees it: each object after each change."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.times import format_time
from fournos.engine.kube.kinds import EVENT, POD
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import WORKLOAD

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
TASKS = 3
NAMESPACE_NAME = "bench"


def named(name: str, **parts: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": NAMESPACE_NAME,
        "uid": f"uid-{name}",
        "creationTimestamp": format_time(BEGIN),
        **parts.pop("metadata", {}),
    }
    return {"metadata": meta, **parts}


def _owned(name: str, kind: str, owner: str, job: str, **parts: Any) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    labels = {
        "fournos.dev/job-name": job,
        "app.kubernetes.io/managed-by": "fournos",
        **parts.pop("labels", {}),
    }
    return named(name, metadata={"ownerReferences": [reference], "labels": labels}, **parts)


def _job(name: str) -> dict[str, Any]:
    """A job of 5 kB, about the size of those of users."""
    args = {f"argument-{n}": f"value of a certain length {n}" for n in range(40)}
    spec = {
        "owner": "perf-team",
        "pipeline": "fournos-full",
        "exclusive": False,
        "hardware": {"gpuType": "h200", "gpuCount": 2},
        "executionEngine": {"forge": {"project": "llm-d", "args": args}},
        "env": {f"VARIABLE_{n}": f"https://example.test/{n}" for n in range(20)},
    }
    return {"apiVersion": "fournos.dev/v1", "kind": "FournosJob", **named(name, spec=spec)}


def _workload(name: str) -> dict[str, Any]:
    requests = {"fournos/cluster-slot": "1"}
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}}
    spec = {"queueName": "fournos-queue", "podSets": [{"name": "launcher", "count": 1, "template": template}]}
    return _owned(f"{name}-w", "FournosJob", name, name, spec=spec)


def life(name: str) -> Iterator[tuple[float, list[tuple[Resource, dict[str, Any]]]]]:
    """Yields the changes of a job's life: seconds since the one before, and what changes."""
    job, workload = _job(name), _workload(name)
    times: dict[str, str] = {}
    clock = 0.0

    def phase(value: str, **more: Any) -> tuple[Resource, dict[str, Any]]:
        entered = "finished" if value == "Succeeded" else value.lower()
        times[entered] = format_time(BEGIN + timedelta(seconds=clock))
        conditions = [
            {"type": kind, "status": "True", "reason": value, "message": f"{kind} since {value}"}
            for kind in ("Resolved", "WorkloadAdmitted", "PipelineRunReady")
        ]
        status = {"phase": value, "phaseTimes": dict(times), "conditions": conditions, **more}
        job["status"] = {**job.get("status", {}), **status}
        return FOURNOS_JOB, copy.deepcopy(job)

    def event(reason: str) -> tuple[Resource, dict[str, Any]]:
        about = {"kind": "FournosJob", "name": name, "uid": f"uid-{name}"}
        at = format_time(BEGIN + timedelta(seconds=clock))
        body = named(f"{name}.{reason}", regarding=about, reason=reason, note=reason, type="Normal")
        return EVENT, {**body, "deprecatedLastTimestamp": at}

    def step(seconds: float) -> float:
        nonlocal clock
        clock += seconds
        return seconds

    yield step(0), [(FOURNOS_JOB, copy.deepcopy(job))]
    yield step(1), [phase("Resolving")]
    yield step(5), [phase("Pending", displayName=name), (WORKLOAD, copy.deepcopy(workload))]
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no room"}
    workload["status"] = {"conditions": [waiting]}
    yield step(0.2), [(WORKLOAD, copy.deepcopy(workload)), phase("Pending", message="Waiting for admission")]
    flavors = {"fournos/cluster-slot": "cluster-1"}
    admission = {
        "clusterQueue": "fournos-queue",
        "podSetAssignments": [{"name": "launcher", "flavors": flavors}],
    }
    held = [{"type": kind, "status": "True", "reason": kind} for kind in ("QuotaReserved", "Admitted")]
    workload["status"] = {"conditions": held, "admission": admission}
    yield (
        step(60),
        [(WORKLOAD, copy.deepcopy(workload)), phase("Admitted", cluster="cluster-1"), event("Admitted")],
    )
    attempt = {"number": 1, "pipelineRun": f"{name}-run", "cluster": "cluster-1"}
    run = _owned(f"{name}-run", "FournosJob", name, name, spec={"pipelineRef": {"name": "fournos-full"}})
    plan = {
        "tasks": [{"name": f"task-{n}", "taskSpec": {"steps": [{"script": "x" * 800}]}} for n in range(TASKS)]
    }
    run["status"] = {
        "startTime": format_time(BEGIN),
        "pipelineSpec": plan,
        "conditions": [{"type": "Succeeded", "status": "Unknown"}],
    }
    yield (
        step(1),
        [
            (PIPELINE_RUN, copy.deepcopy(run)),
            phase("Running", pipelineRun=f"{name}-run", attempt=1, attempts=[attempt]),
        ],
    )
    for number in range(TASKS):
        yield from _task(name, number, step)
    run["status"] = {
        **run["status"],
        "completionTime": format_time(BEGIN),
        "conditions": [{"type": "Succeeded", "status": "True"}],
    }
    yield step(1), [(PIPELINE_RUN, copy.deepcopy(run))]
    yield step(0.2), [phase("Succeeded", message="Pipeline completed successfully"), event("Succeeded")]


def _task(name: str, number: int, step: Any) -> Iterator[tuple[float, list[tuple[Resource, dict[str, Any]]]]]:
    task = f"{name}-task-{number}"
    labels = {"tekton.dev/pipelineRun": f"{name}-run", "tekton.dev/pipelineTask": f"task-{number}"}
    task_run = _owned(
        task, "PipelineRun", f"{name}-run", name, labels=labels, status={"startTime": format_time(BEGIN)}
    )
    pod = _owned(
        f"{task}-pod",
        "TaskRun",
        task,
        name,
        labels=labels,
        spec={"containers": [{"name": "step-x", "args": ["x" * 2000]}]},
    )
    yield step(0.5), [(TASK_RUN, copy.deepcopy(task_run))]
    states: list[dict[str, Any]] = [
        {},
        {"waiting": {"reason": "ContainerCreating"}},
        {"running": {"startedAt": format_time(BEGIN + timedelta(days=1))}},
        {"terminated": {"startedAt": format_time(BEGIN + timedelta(days=1)), "exitCode": 0}},
    ]
    for state in states:
        pod["status"] = {
            "containerStatuses": [
                {"name": "step-x", "state": state, "imageID": "sha256:1" if "running" in state else ""}
            ]
        }
        yield step(2), [(POD, copy.deepcopy(pod))]
    task_run["status"] = {
        **task_run["status"],
        "completionTime": format_time(BEGIN),
        "steps": [{"name": "x", "terminated": states[-1]["terminated"], "imageID": "sha256:1"}],
    }
    yield step(0.5), [(TASK_RUN, copy.deepcopy(task_run))]
