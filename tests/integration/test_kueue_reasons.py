"""What is said of Workloads that wait in a real Kueue, with its granular reasons and without them.

The reasons stand behind the feature gate UnadmittedWorkloadsObservability, which Kueue 0.19 has.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import NAMESPACE, Key
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.insight.explanation import Explanation
from fournos.insight.facts import queue_facts
from fournos.insight.queue_reasons import Words, in_queue
from tests.integration.conftest import kueue_configured
from tests.integration.kueue_version import SINCE_019
from tests.integration.stage import Stage
from tests.queues import cluster_queue, whole

GATE = "UnadmittedWorkloadsObservability"


@pytest.fixture(
    scope="module",
    params=["without", pytest.param("with", marks=SINCE_019)],
    ids=lambda gate: f"{gate} the gate",
)
def configured(request: pytest.FixtureRequest, kubeconfig: Path) -> Iterator[tuple[Path, bool]]:
    """A kubeconfig, and whether its Kueue has the gate on."""
    if request.param == "without":
        yield kubeconfig, False
        return
    with kueue_configured({"featureGates": {GATE: True}}) as path:
        yield path, True


@pytest.fixture
async def stage(configured: tuple[Path, bool]) -> AsyncIterator[Stage]:
    """A namespace; the 2 CPUs of LocalQueue `lq` are in use, the flavor of `broken` is missing."""
    namespace = f"why-{uuid.uuid4().hex[:6]}"
    async with Client(load(configured[0])) as client:
        stage = Stage(namespace, client)
        await client.create(NAMESPACE, whole(NAMESPACE, namespace))
        await client.create(RESOURCE_FLAVOR, whole(RESOURCE_FLAVOR, namespace))
        await _queue(stage, namespace, "lq", flavor=namespace)
        await _queue(stage, f"{namespace}-broken", "broken", flavor="no-such-flavor")
        await _submit(stage, "holder", cpu="2")
        await stage.until(lambda: _in_use(stage), "the quota is not in use")
        yield stage
        await client.delete(NAMESPACE, Key("", namespace))
        for resource, name in (
            (CLUSTER_QUEUE, namespace),
            (CLUSTER_QUEUE, f"{namespace}-broken"),
            (RESOURCE_FLAVOR, namespace),
        ):
            await client.delete(resource, Key("", name))


async def _queue(stage: Stage, name: str, local: str, *, flavor: str) -> None:
    body = cluster_queue(name, {flavor: {"cpu": "2"}}, namespaceSelector={}, preemption={})
    await stage.client.create(CLUSTER_QUEUE, body)
    spec = {"clusterQueue": name}
    await stage.client.create(LOCAL_QUEUE, whole(LOCAL_QUEUE, local, namespace=stage.namespace, spec=spec))


async def _submit(stage: Stage, name: str, *, cpu: str, queue: str = "lq", **annotations: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    spec = {"queueName": queue, "podSets": pod_sets}
    workload = whole(WORKLOAD, name, namespace=stage.namespace, spec=spec)
    workload["metadata"]["annotations"] = annotations
    await stage.client.create(WORKLOAD, workload)


async def _in_use(stage: Stage) -> bool:
    """Kueue counts what a Workload takes a moment after it has admitted it."""
    status = (await stage.client.get(CLUSTER_QUEUE, Key("", stage.namespace))).get("status") or {}
    return any(
        usage["total"] == "2" for flavor in status.get("flavorsUsage") or () for usage in flavor["resources"]
    )


async def _stopped(stage: Stage) -> bool:
    """Kueue tries a Workload of a queue that was stopped a moment ago as if the queue were active."""
    queue = await stage.client.get(CLUSTER_QUEUE, Key("", stage.namespace))
    local_queue = await stage.get(LOCAL_QUEUE, "lq")
    return all((condition(each, "Active") or {}).get("status") == "False" for each in (queue, local_queue))


async def _explained(stage: Stage, name: str, queue: str = "lq") -> tuple[str, Explanation]:
    """Kueue's reason, and the explanation; waits until Kueue has looked at the Workload."""

    async def looked_at() -> Any:
        workload = await stage.get(WORKLOAD, name)
        return workload if (condition(workload, "QuotaReserved") or {}).get("message") else None

    workload = await stage.until(looked_at, f"Kueue says nothing of {name}")
    facts = await queue_facts(stage.client, workload, queue)
    reason = str((condition(workload, "QuotaReserved") or {})["reason"])
    return reason, in_queue(workload, workload, facts, Words((), "", ""))


async def test_quota_that_another_has(stage: Stage, configured: tuple[Path, bool]) -> None:
    await _submit(stage, "next", cpu="1")
    reason, explanation = await _explained(stage, "next")
    assert reason == ("WaitingForQuota" if configured[1] else "Pending")
    assert "too much of cpu is in use" in explanation.verdict


async def test_more_than_there_is(stage: Stage, configured: tuple[Path, bool]) -> None:
    await _submit(stage, "greedy", cpu="5")
    reason, explanation = await _explained(stage, "greedy")
    assert reason == ("ExceedsMaxQuota" if configured[1] else "Pending")
    assert "can never be admitted: it asks for 5 of cpu" in explanation.verdict


async def test_a_queue_that_is_stopped(stage: Stage, configured: tuple[Path, bool]) -> None:
    await stage.client.patch(CLUSTER_QUEUE, Key("", stage.namespace), {"spec": {"stopPolicy": "Hold"}})
    await stage.until(lambda: _stopped(stage), "Kueue does not see that the queue is stopped")
    await _submit(stage, "held", cpu="1")
    reason, explanation = await _explained(stage, "held")
    assert reason == ("Suspended" if configured[1] else "Inadmissible")
    assert "is stopped" in explanation.verdict


async def test_a_queue_that_cannot_work(stage: Stage, configured: tuple[Path, bool]) -> None:
    await _submit(stage, "stuck", cpu="1", queue="broken")
    reason, explanation = await _explained(stage, "stuck", "broken")
    assert reason == ("Suspended" if configured[1] else "Inadmissible")
    assert "is not active" in explanation.verdict


@SINCE_019
async def test_a_gate_on_its_admission(stage: Stage) -> None:
    await _submit(stage, "gated", cpu="1", **{"kueue.x-k8s.io/admission-gated-by": "example.com/approval"})
    reason, explanation = await _explained(stage, "gated")
    assert reason == "AdmissionGated"
    assert "held back by a gate" in explanation.verdict


@SINCE_019
async def test_a_workload_has_its_place_by_its_creation_also_when_it_was_held_back(stage: Stage) -> None:
    """So a job that waits for spec.scheduledStartTime has no Workload before: see decision 25."""
    gate = "kueue.x-k8s.io/admission-gated-by"
    await _submit(stage, "held-back", cpu="2", **{gate: "example.com/start-time"})
    await _explained(stage, "held-back")
    await asyncio.sleep(1.1)  # creation times have no fractions of a second
    await _submit(stage, "later", cpu="2")
    await _explained(stage, "later")
    await stage.client.patch(WORKLOAD, stage.key("held-back"), {"metadata": {"annotations": {gate: None}}})

    async def reconsidered() -> bool:
        reserved = condition(await stage.get(WORKLOAD, "held-back"), "QuotaReserved") or {}
        return reserved.get("reason") not in (None, "AdmissionGated")

    await stage.until(reconsidered, "Kueue does not see that the gate is gone")
    await stage.client.delete(WORKLOAD, stage.key("holder"))

    async def admitted() -> list[str]:
        workloads = [(name, await stage.get(WORKLOAD, name)) for name in ("held-back", "later")]
        return [name for name, workload in workloads if is_true(workload, "QuotaReserved")]

    assert await stage.until(admitted, "none is admitted") == ["held-back"]
