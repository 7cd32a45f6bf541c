"""Objects as a cluster has them, for the command line to show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.engine.api.values import format_time

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
NS = "bench"
FLAVORS = [
    {"metadata": {"name": name}, "spec": {"nodeLabels": {"fournos.dev/cluster": name}}}
    for name in ("cluster-1", "cluster-2")
]


def ago(**length: float) -> str:
    return format_time(NOW - timedelta(**length))


def job(name: str = "one", phase: str | None = "Running", **fields: Any) -> dict[str, Any]:
    """`spec`, `status`, `labels` and `created` are merged over what a plain job has."""
    spec = {
        "owner": "perf-team",
        "pipeline": "fournos-full",
        "cluster": "cluster-1",
        "exclusive": True,
        "hardware": {"gpuType": "a100", "gpuCount": 2},
        "executionEngine": {"forge": {}},
        **fields.get("spec", {}),
    }
    status = {**({"phase": phase} if phase else {}), **fields.get("status", {})}
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {
            "name": name,
            "namespace": fields.get("namespace", NS),
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": fields.get("created", ago(minutes=10)),
            "labels": fields.get("labels", {}),
            "managedFields": [{"manager": "somebody"}],
        },
        "spec": {field: value for field, value in spec.items() if value is not None},
        "status": status,
    }


def child(
    api_version: str, kind: str, name: str, owner: str, *, labels: dict[str, str] | None = None, **rest: Any
) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{kind}-{name}",
            "creationTimestamp": ago(minutes=8),
            "labels": {"fournos.dev/job-name": "one", **(labels or {})},
            "ownerReferences": [{"kind": "X", "name": "x", "uid": owner, "controller": True}],
        },
        **rest,
    }


def workload(name: str = "one", *, asks: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    selector = {"fournos.dev/cluster": fields["cluster"]} if fields.get("cluster") else {}
    requests = asks or {"fournos/cluster-slot": "100", "fournos/gpu-a100": "2"}
    pod = {"containers": [{"name": "c", "resources": {"requests": requests}}], "nodeSelector": selector}
    conditions = fields.get(
        "conditions",
        [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no room"}],
    )
    found = child(
        "kueue.x-k8s.io/v1beta2",
        "Workload",
        name,
        fields.get("owner", f"uid-{name}"),
        labels={"fournos.dev/job-name": name},
        spec={
            "queueName": "fournos-queue",
            "podSets": [{"name": "launcher", "count": 1, "template": {"spec": pod}}],
            "priority": fields.get("priority", 0),
            "active": fields.get("active", True),
        },
        status={"conditions": conditions},
    )
    found["metadata"]["creationTimestamp"] = fields.get("created", ago(minutes=8))
    return found


def local_queue(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "fournos-queue", "namespace": NS},
        "spec": {"clusterQueue": "fournos-queue", **spec},
    }


def cluster_queue(
    quota: dict[str, dict[str, tuple[int, int]]] | None = None, **fields: Any
) -> dict[str, Any]:
    """`quota`: flavor → resource → (nominal, used)."""
    quota = quota or {
        "cluster-1": {"fournos/gpu-a100": (8, 2), "fournos/cluster-slot": (100, 100)},
        "cluster-2": {"fournos/gpu-a100": (8, 0), "fournos/cluster-slot": (100, 0)},
    }
    resources = sorted({name for flavor in quota.values() for name in flavor})
    return {
        "metadata": {"name": "fournos-queue"},
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": resources,
                    "flavors": [
                        {
                            "name": flavor,
                            "resources": [
                                {"name": name, "nominalQuota": str(nominal)}
                                for name, (nominal, _) in amounts.items()
                            ],
                        }
                        for flavor, amounts in quota.items()
                    ],
                }
            ],
            **fields.get("spec", {}),
        },
        "status": {
            "conditions": fields.get("conditions", [{"type": "Active", "status": "True"}]),
            "flavorsReservation": [
                {
                    "name": flavor,
                    "resources": [{"name": name, "total": str(used)} for name, (_, used) in amounts.items()],
                }
                for flavor, amounts in quota.items()
            ],
        },
    }


def run(name: str = "one", *, owner: str = "uid-one", **fields: Any) -> dict[str, Any]:
    return child(
        "tekton.dev/v1",
        "PipelineRun",
        name,
        owner,
        status={
            "pipelineSpec": {
                "tasks": [{"name": "prepare"}, {"name": "benchmark"}, {"name": "report"}],
                "finally": [{"name": "cleanup"}],
            },
            "conditions": [
                {"type": "Succeeded", "status": "Unknown", "reason": "Running", "message": "1 of 4"}
            ],
            **fields,
        },
    )


def task_run(task: str, *, run_name: str = "one", **status: Any) -> dict[str, Any]:
    return child(
        "tekton.dev/v1",
        "TaskRun",
        f"{run_name}-{task}",
        f"uid-PipelineRun-{run_name}",
        labels={"tekton.dev/pipelineRun": run_name, "tekton.dev/pipelineTask": task},
        status=status,
    )


def pod(task: str, *containers: str, run_name: str = "one", **fields: Any) -> dict[str, Any]:
    return child(
        "v1",
        "Pod",
        f"{run_name}-{task}-pod",
        f"uid-TaskRun-{run_name}-{task}",
        labels={"tekton.dev/pipelineRun": run_name, "tekton.dev/pipelineTask": task},
        spec={"containers": [{"name": name} for name in containers]},
        status={
            "phase": "Running",
            "startTime": fields.get("started", ago(minutes=5)),
            "containerStatuses": [
                {"name": name, "state": fields.get("state", {"terminated": {"exitCode": 0}})}
                for name in containers
            ],
        },
    )
