"""Objects of all kinds that are created on the manager, and really run their pods on the worker."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.progress import Progress
from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, FOURNOS_SCHEDULE, MINICLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import POD, Obj
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.schedules.names import TRIGGER_ANNOTATION
from tests.fakes.flux_image import flux_image
from tests.integration.multikueue.fleet import PIPELINE_RUN, TARGET, Fleet, typed
from tests.integration.multikueue.test_wrapped import has, submit

BUSYBOX = "docker.io/library/busybox:1.36"
LIMIT = 240.0
"""Seconds; Kueue takes up to two minutes to see that the manager has AppWrappers."""


async def finished(fleet: Fleet, *, count: int) -> None:
    """All Workloads, with a good end; then nothing of them is left on the worker."""

    async def over() -> bool:
        workloads = await fleet.manager.all(WORKLOAD)
        return len(workloads) == count and all(is_true(one, "Finished") for one in workloads)

    await fleet.until(over, "a Workload is not finished")
    for one in await fleet.manager.all(WORKLOAD):
        assert (condition(one, "Finished") or {})["reason"] == "Succeeded"
    assert not await fleet.manager.all(POD)


async def test_a_pipelinerun_and_its_status(fleet: Fleet) -> None:
    worker = fleet.workers["worker"]
    step = {"name": "s", "image": BUSYBOX, "script": "#!/bin/sh\nsleep 5\n"}
    tasks = [{"name": "t", "taskSpec": {"steps": [step]}}]
    await submit(fleet, PIPELINE_RUN, "hello", pipelineSpec={"tasks": tasks})

    async def running() -> Any:
        found = await worker.find(PIPELINE_RUN, "hello")
        return found if ((found or {}).get("status") or {}).get("childReferences") else None

    copy = await fleet.until(running, "no task of it runs on the worker")
    assert "managedBy" not in copy["spec"]

    async def succeeded() -> bool:
        return is_true(await fleet.manager.find(PIPELINE_RUN, "hello"), "Succeeded")

    await fleet.until(succeeded, "it does not succeed")
    own = await fleet.manager.find(PIPELINE_RUN, "hello")
    assert own["status"]["childReferences"] == copy["status"]["childReferences"]
    await finished(fleet, count=1)

    async def clean() -> bool:
        return await worker.find(PIPELINE_RUN, "hello") is None

    await fleet.until(clean, "its copy stays on the worker")
    assert is_true(await fleet.manager.find(PIPELINE_RUN, "hello"), "Succeeded")


async def scheduled(fleet: Fleet, job: dict[str, Any]) -> None:
    """A schedule on the manager whose jobs are dispatched, and a fire by hand."""
    template = {"spec": {**job, "managedBy": names.MULTIKUEUE}}
    spec = {"schedules": ["@yearly"], "timeZone": "Etc/UTC", "jobTemplate": template}
    body = typed(FOURNOS_SCHEDULE, "yearly", spec=spec)
    annotations = {TRIGGER_ANNOTATION: "now"}
    body["metadata"] |= {"namespace": fleet.namespace, "annotations": annotations}
    await fleet.manager.client.create(FOURNOS_SCHEDULE, body)


@pytest.mark.timeout(600)
async def test_fournosjob_minicluster_and_appwrapper(fleet: Fleet) -> None:
    """Side by side: the objects of each run on the worker, and the manager cluster shows their end.

    The FournosJob is a schedule's, which the manager's operator creates.
    """
    image = flux_image(Progress()).tag
    await scheduled(
        fleet,
        {
            "owner": "e2e",
            "pipeline": "fournos-run-only",
            "cluster": TARGET,
            "exclusive": False,
            "hardware": {"gpuType": "h200", "gpuCount": 1},
            "executionEngine": {"forge": {"project": "mock"}},
        },
    )
    await submit(
        fleet,
        MINICLUSTER,
        "flux",
        size=2,
        tasks=2,
        logging={"quiet": True},
        flux={"container": {"image": image, "disable": True}},
        containers=[
            {"image": image, "command": "echo hello", "resources": {"requests": {"cpu": "100m"}}},
        ],
    )
    container = {
        "name": "c",
        "image": BUSYBOX,
        "command": ["true"],
        "resources": {"requests": {"cpu": "100m"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "wrapped"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    await submit(fleet, APPWRAPPER, "wrapper", suspend=True, components=[{"template": pod}])

    async def created() -> list[Obj]:
        return await fleet.manager.all(FOURNOS_JOB)

    (job,) = await fleet.until(created, "the schedule has no job")
    job = await has(fleet, FOURNOS_JOB, job["metadata"]["name"], "Succeeded", limit=LIMIT)
    assert job["status"]["cluster"] == TARGET
    assert not await fleet.workers["worker"].all(FOURNOS_SCHEDULE), "the manager's operator has created it"
    flux = await has(fleet, MINICLUSTER, "flux", "Finished", limit=LIMIT)
    assert flux["status"]["exitCode"] == 0
    await has(fleet, APPWRAPPER, "wrapper", "Succeeded", limit=LIMIT)
    await finished(fleet, count=3)
