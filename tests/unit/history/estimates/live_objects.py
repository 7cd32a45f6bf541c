"""A queue of two clusters, with what waits and runs there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.engine.api.values import format_time
from fournos.history.estimates.durations import Past, WorkProfile
from fournos.history.estimates.live import Objects

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SLOTS, GPUS = "fournos/cluster-slot", "fournos/gpu-a100"
FLAVORS = [
    {"metadata": {"name": name}, "spec": {"nodeLabels": {"fournos.dev/cluster": name}}}
    for name in ("c-1", "c-2")
]
CLASSES = [{"metadata": {"name": "urgent"}, "value": 1000}]


def cluster_queue(*, reserved: dict[str, float] | None = None, **spec: Any) -> dict[str, Any]:
    flavors = [
        {
            "name": name,
            "resources": [{"name": SLOTS, "nominalQuota": 100}, {"name": GPUS, "nominalQuota": 8}],
        }
        for name in ("c-1", "c-2")
    ]
    usage = [
        {"name": name, "resources": [{"name": SLOTS, "total": str(total)}]}
        for name, total in (reserved or {}).items()
    ]
    return {
        "metadata": {"name": "all"},
        "spec": {"resourceGroups": [{"coveredResources": [SLOTS, GPUS], "flavors": flavors}], **spec},
        "status": {"flavorsReservation": usage},
    }


def local_queue(namespace: str = "perf") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "fournos-queue"}, "spec": {"clusterQueue": "all"}}


def spec(**fields: Any) -> dict[str, Any]:
    engine = {"forge": {"project": "llmd"}}
    return {
        "owner": "me",
        "executionEngine": engine,
        "exclusive": False,
        "hardware": {"gpuType": "a100", "gpuCount": 4},
        **fields,
    }


def job(name: str, *, namespace: str = "perf", status: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}", "labels": {}},
        "spec": spec(**fields),
        "status": {"phase": "Pending", **(status or {})},
    }


def workload(
    of: dict[str, Any], *, age: float = 60, priority: int = 0, on: str = "", kind: str = "FournosJob"
) -> dict[str, Any]:
    """Waits, or holds its quota on the cluster `on` for `age` seconds."""
    meta, wanted = of["metadata"], of["spec"]
    slots = "100" if wanted.get("exclusive", True) else "1"
    asks = {SLOTS: slots, GPUS: str(wanted["hardware"]["gpuCount"])}
    pod: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": asks}}]}
    if wanted.get("cluster"):
        pod["nodeSelector"] = {"fournos.dev/cluster": wanted["cluster"]}
    since = format_time(NOW - timedelta(seconds=age))
    status: dict[str, Any] = {"conditions": []}
    if on:
        reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": since}
        assigned = {"name": "launcher", "flavors": {SLOTS: on, GPUS: on}, "resourceUsage": asks}
        status = {
            "conditions": [reserved],
            "admission": {"clusterQueue": "all", "podSetAssignments": [assigned]},
        }
    owner = {"kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "kind": "Workload",
        "metadata": {
            "namespace": meta["namespace"],
            "name": f"wl-{meta['name']}",
            "uid": f"wl-{meta['uid']}",
            "creationTimestamp": since,
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": "fournos-queue",
            "priority": priority,
            "active": True,
            "podSets": [{"name": "launcher", "count": 1, "template": {"spec": pod}}],
        },
        "status": status,
    }


def world(*jobs: tuple[dict[str, Any], dict[str, Any]], queue: Any = None, **fields: Any) -> Objects:
    """`jobs` are pairs of job and Workload."""
    found = Objects(
        workloads=[one for _, one in jobs],
        local_queues=[local_queue(), local_queue("other")],
        cluster_queues=[queue or cluster_queue()],
        flavors=FLAVORS,
        priority_classes=CLASSES,
        jobs={one["metadata"]["uid"]: one for one, _ in jobs},
        namespaces={"perf": "uid-perf", "other": "uid-other", "kube-system": "here"},
    )
    return replace(found, **fields)


def past(work: WorkProfile, seconds: float = 3600.0, number: int = 5) -> list[Past]:
    return [Past(work, seconds)] * number
