"""A job that accepts several GPU types, in a queue of real Kueue."""

from __future__ import annotations

from typing import Any

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.queueing.kinds import WORKLOAD
from tests.integration.jobs.stage import GPU, OTHER_GPU, JobStage


async def is_waiting(stage: JobStage, name: str) -> bool:
    """Kueue has looked at the job's Workload and found no quota; `Pending` is written before there is one."""
    try:
        workload = await stage.get(WORKLOAD, name)
    except NotFoundError:
        return False
    reserved = condition(workload, "QuotaReserved")
    return reserved is not None and reserved["status"] == "False"


async def test_of_several_gpu_types_a_waiting_job_takes_those_that_are_free(stage: JobStage) -> None:
    """Kueue gives quota of the one type that the Workload asks for; the operator asks for another."""
    stage.executors.held.update(("first", "second", "third"))
    await stage.leading()
    choice = {"gpuType": GPU, "gpuCount": 60, "alternatives": [{"gpuType": OTHER_GPU, "gpuCount": 4}]}
    shared: dict[str, Any] = {"cluster": "faults-1", "hardware": choice}
    got: dict[str, Any] = {}
    for name in ("first", "second"):
        await stage.submit(name, **shared)
        got[name] = (await stage.phase(name, "Running"))["resolved"]["hardware"]
    assert got == {
        "first": {"gpuType": GPU, "gpuCount": 60},
        "second": {"gpuType": OTHER_GPU, "gpuCount": 4},
    }
    await stage.submit("third", **shared)
    await stage.until(lambda: is_waiting(stage, "third"), "Kueue does not know that the third waits")
    workload = await stage.get(WORKLOAD, "third")
    stage.executors.finish("second")
    status = await stage.phase("third", "Running")
    assert status["resolved"]["hardware"] == got["second"]
    assert (await stage.get(WORKLOAD, "third"))["metadata"]["uid"] == workload["metadata"]["uid"]
    stage.executors.finish("first")
    stage.executors.finish("third")
    jobs = ("first", "second", "third")
    await stage.good_end(dict.fromkeys(jobs, "Succeeded"), runs=jobs)
