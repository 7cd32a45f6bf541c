"""What each explanation of a wait says."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.insight.facts import gather
from fournos.insight.reasons import explain
from tests.unit.cli.api import Api
from tests.unit.cli.objects import (
    NOW,
    NS,
    child,
    cluster_queue,
    job,
    pod,
    run,
    task_run,
    workload,
)
from tests.unit.cli.test_explain import world

RESERVED = [{"type": "QuotaReserved", "status": "True"}]


def pending(**fields: Any) -> dict[str, Any]:
    return job("one", "Pending", **fields)


def holder() -> dict[str, Any]:
    return job("two", "Running", status={"cluster": "cluster-1"})


def running(*objects: Any) -> Api:
    return Api(job("one", "Running", status={"pipelineRun": "one"}), run(), *objects)


def pod_in(task: str, state: dict[str, Any], *conditions: dict[str, str], node: str = "n1") -> dict[str, Any]:
    found = pod(task, "step-x", state=state)
    found["spec"]["nodeName"] = node
    found["status"]["conditions"] = list(conditions)
    return found


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
SHARED = {"exclusive": False, "hardware": None, "cluster": None}
CASES = {
    "no operator": (Api(job("one", None)), "No operator has looked at one yet"),
    "another operator": (Api(job("one", None, spec={"managedBy": "a/b"})), "a/b"),
    "no resolve Job": (Api(job("one", "Resolving")), "resolve Job to be made"),
    "resolving": (
        Api(job("one", "Resolving"), child("batch/v1", "Job", "one-resolve", "uid-one")),
        "one is resolving its requirements",
    ),
    "suspended": (world(pending(spec={"suspend": True})), "spec.suspend"),
    "start time": (
        world(pending(spec={"scheduledStartTime": "2030-01-02T12:00:00Z"})),
        "one is not queued before 2030-01-02T12:00:00Z (spec.scheduledStartTime), in",
    ),
    "retry": (
        world(pending(status={"retryAt": "2030-01-01T12:00:20Z"})),
        "one failed and is tried again in 20s.",
    ),
    "stopped queue": (
        world(pending(), workload(), queue=cluster_queue(spec={"stopPolicy": "Hold"})),
        "stopPolicy Hold",
    ),
    "no queue": (Api(pending(), workload()), "LocalQueue fournos-queue"),
    "deactivated": (world(pending(), workload(active=False)), "deactivated"),
    "admission checks": (
        world(pending(), workload(conditions=RESERVED)),
        "admission checks",
    ),
    "a lock": (
        world(pending(), holder(), workload(cluster="cluster-1")),
        "wants cluster-1 for itself",
    ),
    "quota": (
        world(
            pending(spec=SHARED),
            workload(asks={"fournos/cluster-slot": "1"}),
            queue=cluster_queue({"cluster-1": {"fournos/cluster-slot": (100, 100)}}),
        ),
        "too much is in use",
    ),
    "never": (
        world(pending(), workload(asks={"fournos/gpu-h999": "1"})),
        "can never be admitted",
    ),
    "priority": (
        world(
            pending(spec=SHARED),
            workload(asks={"fournos/cluster-slot": "1"}),
            workload("zero", priority=9),
        ),
        "behind 1 job of the queue",
    ),
    "dispatch": (Api(job("one", "Admitted", status={"cluster": "c"})), "is being prepared"),
    "scheduling": (
        running(task_run("prepare"), pod_in("prepare", {}, UNSCHEDULABLE, node="")),
        "a pod of it cannot",
    ),
    "image pull": (
        running(task_run("prepare"), pod_in("prepare", {"waiting": {"reason": "ImagePullBackOff"}})),
        "a pod of it cannot",
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_each_wait_has_a_verdict(name: str) -> None:
    api, text = CASES[name]
    found = explain(await gather(api, await api.get(FOURNOS_JOB, Key(NS, "one"))), NOW)
    assert text in found.verdict


async def test_a_queue_that_may_not_be_read_is_no_reason() -> None:
    api = world(pending(), workload())
    api.fails["get", LOCAL_QUEUE] = ForbiddenError("no", status=403)
    found = explain(await gather(api, await api.get(FOURNOS_JOB, Key(NS, "one"))), NOW)
    assert found.verdict == "one waits for Kueue to admit it."
