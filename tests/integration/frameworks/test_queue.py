"""PipelineRuns and an invented kind in real Kueue's queues, held by the webhook of a real operator."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.api.conditions import is_true
from fournos.engine.kube.errors import InvalidError, NotFoundError
from fournos.engine.kube.resource import JOB, Key, Obj
from fournos.engine.queueing.kinds import (
    CLUSTER_QUEUE,
    WORKLOAD_PRIORITY_CLASS,
)
from tests.integration.frameworks.conftest import FOO, HELD_BY, LATE, QUEUE, RUN, WORKFLOW, FrameworkStage

PENDING = "PipelineRunPending"


async def test_two_runs_for_one_place(stage: FrameworkStage) -> None:
    await stage.set_up()
    first = await stage.run("first")
    assert first["spec"]["status"] == PENDING and first["metadata"]["annotations"][HELD_BY] == "queue"
    await stage.released("first")
    second = await stage.run("second")
    waiting = await stage.queued("second")
    assert second["spec"]["status"] == PENDING and not is_true(waiting, "Admitted")
    await stage.report("first", "True", "Succeeded")
    finished = await stage.finished("first")
    assert (finished["reason"], finished["message"]) == ("Succeeded", "Succeeded it is")
    await stage.released("second")
    await stage.report("second", "False", "Failed")
    assert (await stage.finished("second"))["reason"] == "Failed"


async def test_a_run_cannot_be_released_before_the_queue(stage: FrameworkStage) -> None:
    await stage.set_up(runs=0)
    await stage.run("early")
    await stage.queued("early")
    with pytest.raises(InvalidError, match="has not admitted it yet"):
        await stage.client.patch(RUN, stage.key("early"), {"spec": {"status": None}})
    with pytest.raises(InvalidError, match="queue name cannot be taken away"):
        await stage.client.patch(RUN, stage.key("early"), {"metadata": {"labels": {QUEUE: None}}})
    await stage.client.patch(RUN, stage.key("early"), {"metadata": {"labels": {"other": "x"}}})
    await stage.client.patch(RUN, stage.key("early"), {"spec": {"status": "Cancelled"}})
    await stage.report("early", "False", "Cancelled")
    assert (await stage.finished("early"))["reason"] == "Failed"


# --- between kinds -----------------------------------------------------------------------------------


async def priority(stage: FrameworkStage, name: str, value: int) -> str:
    whole = f"{stage.namespace}-{name}"
    await stage.add(WORKLOAD_PRIORITY_CLASS, whole, value=value)
    return whole


def job(stage: FrameworkStage, name: str, priority: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    labels = {QUEUE: "lq", "kueue.x-k8s.io/priority-class": priority}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": stage.namespace, "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


async def suspended(stage: FrameworkStage, name: str) -> bool:
    found = await stage.client.get(JOB, stage.key(name))
    return bool(found["spec"].get("suspend"))


async def test_a_job_of_kueues_own_preempts_a_run(stage: FrameworkStage) -> None:
    await stage.set_up()
    low, high = await priority(stage, "low", 1), await priority(stage, "high", 100)
    await stage.run("victim", priority=low, annotations={"fournos.dev/requests": "cpu=2"})
    await stage.released("victim")
    await stage.report("victim", "Unknown", "Running")
    await stage.client.create(JOB, job(stage, "urgent", high))

    async def cancelled() -> Obj | None:
        found = await stage.job("victim")
        return found if found["spec"].get("status") == "Cancelled" else None

    run = await stage.until(cancelled, "the run is not cancelled")
    assert run["metadata"]["annotations"]["fournos.dev/stopped"].startswith("Preempted: ")
    assert await suspended(stage, "urgent")  # the quota is the run's until it has ended
    await stage.report("victim", "False", "Cancelled")
    assert (await stage.finished("victim"))["message"].startswith("Stopped by the queue: Preempted: ")

    async def goes() -> bool:
        return not await suspended(stage, "urgent")

    await stage.until(goes, "the Job does not start")


# --- an invented kind --------------------------------------------------------------------------------


async def test_an_invented_kind_is_held_placed_stopped_and_let_go_again(stage: FrameworkStage) -> None:
    await stage.set_up(labels={"pool": "a"})
    made = await stage.foo("foo", replicas=2)
    assert made["spec"]["suspend"] is True

    async def goes() -> Obj | None:
        found = await stage.job("foo", FOO)
        return None if found["spec"]["suspend"] else found

    going = await stage.until(goes, "it is not let go")
    assert going["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "a"}
    await stage.status("foo", {"active": 2})
    queue = Key("", stage.namespace)
    await stage.client.patch(CLUSTER_QUEUE, queue, {"spec": {"stopPolicy": "HoldAndDrain"}})

    async def held() -> Obj | None:
        found = await stage.job("foo", FOO)
        return found if found["spec"]["suspend"] else None

    stopped = await stage.until(held, "it is not held again")
    assert stopped["spec"]["template"]["spec"] == made["spec"]["template"]["spec"]
    assert not stopped["spec"]["template"]["metadata"]
    workload = await stage.queued("foo")
    assert is_true(workload, "QuotaReserved")  # two pods run still
    await stage.status("foo", {"active": 0})

    async def given_back() -> bool:
        return not is_true(await stage.queued("foo"), "QuotaReserved")

    await stage.until(given_back, "the quota is not given back")
    await stage.client.patch(CLUSTER_QUEUE, queue, {"spec": {"stopPolicy": "None"}})
    await stage.until(goes, "it is not let go a second time")
    await stage.status("foo", {"active": 0, "phase": "Done"})
    assert (await stage.finished("foo"))["reason"] == "Succeeded"


# --- other clusters ----------------------------------------------------------------------------------


# --- last, since the operator looks for a missing kind every half minute -----------------------------------


async def test_a_kind_whose_crd_comes_later_is_picked_up(stage: FrameworkStage) -> None:
    """It was missing when the operator started, and stopped no other kind."""
    await stage.set_up()
    await stage.foo("late", resource=LATE, suspend=True)

    async def goes() -> bool:
        return not (await stage.job("late", LATE))["spec"]["suspend"]

    await stage.until(goes, "the new kind is not seen")


async def test_argo_workflows_wait_for_their_queue(stage: FrameworkStage) -> None:
    """With Argo's own CRD, which has no status subresource; its controller is played."""
    await stage.set_up()
    for name in ("first", "second"):
        made = await stage.workflow(name)
        assert made["spec"]["suspend"] is True and made["metadata"]["annotations"][HELD_BY] == "queue"

    async def running() -> list[str]:
        found = (await stage.client.list(WORKFLOW, namespace=stage.namespace)).items
        return [one["metadata"]["name"] for one in found if "suspend" not in one["spec"]]

    (one,) = await stage.until(running, "no Workflow is let go")
    assert (await stage.job(one, WORKFLOW))["spec"]["entrypoint"] == "main", "the rest of the spec stays"
    other = "second" if one == "first" else "first"
    assert not is_true(await stage.queued(other), "Admitted")
    done = {"status": {"phase": "Succeeded", "message": "done"}}
    with pytest.raises(NotFoundError):  # MultiKueue's adapter goes by this answer
        await stage.client.patch(WORKFLOW, stage.key(one), done, subresource="status")
    await stage.client.patch(WORKFLOW, stage.key(one), done)
    finished = await stage.finished(one)
    assert (finished["reason"], finished["message"]) == ("Succeeded", "done")

    async def both() -> bool:
        return sorted(await running()) == ["first", "second"]

    await stage.until(both, "the other Workflow is not let go")
    await stage.client.patch(WORKFLOW, stage.key(other), {"status": {"phase": "Error", "message": "no"}})
    assert (await stage.finished(other))["reason"] == "Failed"
