"""A MiniCluster's Job and pods as a pass sees them, for tests that call a decision directly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.engine.kube.resource import JOB, Key
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.runtime.decision import Facts, Present, Unknown
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.status import Context, Observed
from tests.unit.systems.miniclusters.actors import NS, manifest

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = MiniClusterSettings()


def owner(kind: str, uid: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": "flux", "uid": uid, "controller": True}]


def job(*conditions: tuple[str, str, str], size: int = 2, **spec: Any) -> dict[str, Any]:
    """Of the MiniCluster below; conditions as (type, reason, message)."""
    shown = [{"type": t, "status": "True", "reason": r, "message": m} for t, r, m in conditions]
    return {
        "metadata": {
            "name": "flux",
            "namespace": NS,
            "uid": "job",
            "ownerReferences": owner("MiniCluster", "mc"),
        },
        "spec": {"parallelism": size, **spec},
        "status": {"conditions": shown},
    }


def pod(index: int, **status: Any) -> dict[str, Any]:
    labels = {names.MINICLUSTER_LABEL: "flux", names.COMPLETION_INDEX_LABEL: str(index)}
    meta = {
        "name": f"flux-{index}",
        "namespace": NS,
        "labels": labels,
        "ownerReferences": owner("Job", "job"),
    }
    return {"metadata": meta, "status": status}


def ended(index: int, code: int, phase: str, message: str | None = None, *, ago: int = 0) -> dict[str, Any]:
    """A pod whose container has ended; `message`: what it wrote, by default the code."""
    at = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"exitCode": code, "message": str(code) if message is None else message, "finishedAt": at}
    return pod(index, phase=phase, containerStatuses=[{"name": "flux", "state": {"terminated": state}}])


def runs(index: int) -> dict[str, Any]:
    container = {"name": "flux", "ready": True, "state": {"running": {"startedAt": "2026-01-01T11:00:00Z"}}}
    ready = [{"type": "Ready", "status": "True"}]
    return pod(index, phase="Running", containerStatuses=[container], conditions=ready)


def ctx(
    *pods: dict[str, Any],
    job: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    live: Any = None,
    inputs: QueueInputs | None = None,
    **spec: Any,
) -> Context:
    """`live`: the answer to the question for its pods; its Job is as the cache has it."""
    one = manifest(**spec)
    one["metadata"]["uid"] = "mc"
    one["status"] = status or {}
    made = {} if job is None else {(JOB, "flux"): job}
    observed = Observed(Key(NS, "flux"), one, made, pods, inputs or QueueInputs())
    found = Context(observed, Facts(), NOW, SETTINGS)
    answers = {found.job_question: Present(job) if job else Unknown("")} if live is not None else {}
    if live is not None:
        answers[found.pods_question] = live
    return Context(observed, Facts(answers), NOW, SETTINGS)
