"""spec.scheduledStartTime in a real Kueue: no Workload before it, whatever the operator did meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import creation_time, format_time, parse_time
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.queueing.kinds import WORKLOAD
from tests.integration.jobs.stage import JobStage
from tests.waiting import LIMIT


def start_in(seconds: float) -> str:
    return format_time(datetime.now(UTC) + timedelta(seconds=seconds))


async def has_workload(stage: JobStage, name: str) -> bool:
    try:
        return bool(await stage.get(WORKLOAD, name))
    except NotFoundError:
        return False


async def waits_for_its_time(stage: JobStage, name: str) -> bool:
    status = (await stage.get(FOURNOS_JOB, name)).get("status") or {}
    return status.get("phase") == "Pending" and "Not queued before" in str(status.get("message"))


async def test_a_job_is_queued_at_its_start_time_by_whichever_operator_is_there(stage: JobStage) -> None:
    stage.executors.held.add("job")
    operator = await stage.leading()
    start_at = start_in(15)
    job = await stage.submit(scheduledStartTime=start_at)
    await stage.until(lambda: waits_for_its_time(stage, job), "the job does not wait for its time")
    assert not await has_workload(stage, job)
    await stage.kill(operator)
    await stage.leading()
    await stage.phase(job, "Running")
    assert creation_time(await stage.get(WORKLOAD, job)) >= parse_time(start_at)
    stage.executors.finish(job)
    await stage.good_end({job: "Succeeded"}, runs=(job,))


async def test_a_job_in_the_queue_leaves_it_until_a_time_that_is_set_later(stage: JobStage) -> None:
    stage.executors.held.update(("first", "second"))
    await stage.leading()
    await stage.submit("first", cluster="faults-1", exclusive=True)
    await stage.phase("first", "Running")
    await stage.submit("second", cluster="faults-1", exclusive=True)
    await stage.until(lambda: has_workload(stage, "second"), "the second is not in the queue")
    postponed = {"spec": {"scheduledStartTime": start_in(LIMIT)}}
    await stage.client.patch(FOURNOS_JOB, stage.key("second"), postponed)
    await stage.until(lambda: waits_for_its_time(stage, "second"), "the second stays in the queue")
    stage.executors.finish("first")
    await stage.phase("first", "Succeeded")
    assert not await has_workload(stage, "second")
    await stage.client.patch(FOURNOS_JOB, stage.key("second"), {"spec": {"scheduledStartTime": None}})
    await stage.phase("second", "Running")
    assert is_true(await stage.get(WORKLOAD, "second"), "Admitted")
    stage.executors.finish("second")
    await stage.good_end(dict.fromkeys(("first", "second"), "Succeeded"), runs=("first", "second"))
