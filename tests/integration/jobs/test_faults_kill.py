"""The operator is killed, or its answers are lost: it goes on where it was, and nothing happens twice."""

from __future__ import annotations

from collections.abc import Callable

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL
from fournos.engine.queueing.kinds import WORKLOAD
from tests.faults.rules import Cut
from tests.integration.jobs.stage import JobStage
from tests.integration.killing import killed_after, killed_after_each_write


def settled(stage: JobStage, name: str = "job") -> Callable[[], bool]:
    """Whether all that the operator does for a job is done."""

    def look() -> bool:
        job = stage.executors.find(FOURNOS_JOB, name)
        if job is None or (job.get("status") or {}).get("phase") not in TERMINAL:
            return False
        return not job["metadata"].get("finalizers") and not stage.executors.all(WORKLOAD)

    return look


async def test_killed_after_every_write_of_a_job_s_life(stage: JobStage) -> None:
    name = await stage.submit()
    written = await killed_after_each_write(stage, settled(stage))
    for write in (
        "patch fournosjobs/status",
        "create jobs",
        "create workloads",
        "patch fournosjobs",  # the finalizer
        "create secrets",
        "create pipelineruns",
        "delete workloads",
    ):
        assert write in written, written
    await stage.good_end({name: "Succeeded"}, runs=[name])


async def test_killed_in_a_stop(stage: JobStage) -> None:
    stage.executors.held.add("job")
    name = await stage.submit()
    operator = await stage.leading()
    await stage.phase(name, "Running")
    await stage.kill(operator)
    await stage.patch(FOURNOS_JOB, name, {"spec": {"shutdown": "Stop"}})
    await killed_after(stage, "patch pipelineruns", "delete workloads", "patch fournosjobs/status")
    stage.launch()
    await stage.until(settled(stage), "the stop does not end")
    await stage.good_end({name: "Stopped"}, runs=[name])


async def test_the_answer_to_every_kind_of_write_is_lost(stage: JobStage) -> None:
    kinds = (
        ("create", "jobs"),
        ("create", "workloads"),
        ("create", "secrets"),
        ("create", "pipelineruns"),
        ("delete", "workloads"),
    )
    rules = [stage.proxy.on_request(Cut(after=True), verb=verb, resource=kind) for verb, kind in kinds]
    rules += [
        stage.proxy.on_request(Cut(after=True), verb="patch", resource="fournosjobs", subresource=part)
        for part in ("", "status")
    ]
    await stage.leading()
    name = await stage.submit()
    await stage.good_end({name: "Succeeded"}, runs=[name])
    assert all(rule.hits for rule in rules), [rule for rule in rules if not rule.hits]
