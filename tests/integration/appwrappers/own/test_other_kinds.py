"""AppWrappers beside other queued kinds: a batch Job of Kueue's own, a FournosJob of ours."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.slots import SLOT_RESOURCE
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import JOB, NAMESPACE, Key
from tests.integration.appwrappers.stage import QUEUE, AppWrapperStage, job, messages_of, pod
from tests.integration.jobs.operator import Operator

HIGH, MID, LOW = (f"appwrappers-{level}" for level in ("high", "mid", "low"))
PRIORITY = "kueue.x-k8s.io/priority-class"


@pytest.fixture
async def jobs_operator(stage: AppWrapperStage, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Operator]:
    secrets = {"metadata": {"name": f"{stage.namespace}-secrets"}}
    await stage.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", **secrets})
    found = Operator(kubeconfig, stage.namespace, tmp_path / "jobs.log")
    tail, stage.tail = stage.tail, lambda: f"{tail()}\n{found.tail()}"
    yield await found.ready()
    found.stop()
    await stage.client.delete(NAMESPACE, Key("", f"{stage.namespace}-secrets"))


def lock(name: str, **spec: Any) -> dict[str, Any]:
    """A FournosJob that takes a whole cluster and runs nothing."""
    return {
        "apiVersion": FOURNOS_JOB.api_version,
        "kind": FOURNOS_JOB.kind,
        "metadata": {"name": name},
        "spec": {"lockOnly": True, **spec},
    }


async def job_phase(stage: AppWrapperStage, name: str, *phases: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def there() -> bool:
        with contextlib.suppress(NotFoundError):  # its AppWrapper makes it soon
            found.update(await stage.get(FOURNOS_JOB, name))
        return (found.get("status") or {}).get("phase") in phases

    await stage.until(there, lambda: f"{name} is not {' or '.join(phases)}: {messages_of(found)}")
    return found


async def _cluster_taken(stage: AppWrapperStage) -> bool:
    return await stage.reserved(SLOT_RESOURCE) == "100"


async def test_priorities_reach_across_kinds(stage: AppWrapperStage, jobs_operator: Operator) -> None:
    """One cluster for three: the AppWrapper yields to a Job, the Job to a FournosJob, and all come back."""
    stage.kubelet.endless.update({"low", "mid"})
    await stage.submit("low", pod("low", slots="100"), labels={PRIORITY: LOW})
    await stage.condition("low", "PodsReady", "True")
    mid = job("mid", slots="100", suspend=True)
    mid["metadata"] |= {
        "namespace": stage.namespace,
        "labels": {"kueue.x-k8s.io/queue-name": QUEUE, PRIORITY: MID},
    }
    await stage.client.create(JOB, mid)
    await stage.phase("low", "Suspended")
    await stage.condition("low", "Requeued", "True", "Preempted")
    await stage.until(lambda: bool(stage.kubelet.live("mid")), "the Job does not run")
    assert stage.kubelet.live("low") == []
    high = lock("high", cluster="appwrappers-a", priority=HIGH)
    high["metadata"]["namespace"] = stage.namespace
    await stage.client.create(FOURNOS_JOB, high)
    await job_phase(stage, "high", "Admitted")
    await stage.condition("high", "PodsReady", "True")
    assert stage.kubelet.live() == []
    await stage.until(lambda: _cluster_taken(stage), "Kueue does not count its slots")
    await stage.patch(FOURNOS_JOB, "high", {"spec": {"shutdown": "Stop"}})
    await stage.until(lambda: bool(stage.kubelet.live("mid")), "the Job does not come back")
    stage.kubelet.finish("low", "mid")
    await stage.phase("low", "Succeeded")
