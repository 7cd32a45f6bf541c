"""Objects of all kinds that are created on the manager, and really run their pods on the worker."""

from __future__ import annotations

import pytest

from devcluster.progress import Progress
from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, MINICLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.kinds import POD
from fournos.engine.queueing.kinds import WORKLOAD
from tests.fakes.flux_image import flux_image
from tests.integration.multikueue.fleet import PIPELINE_RUN, TARGET, Fleet
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
    step = {"name": "s", "image": BUSYBOX, "script": "#!/bin/sh\necho ran here\n"}
    tasks = [{"name": "t", "taskSpec": {"steps": [step]}}]
    await submit(fleet, PIPELINE_RUN, "hello", pipelineSpec={"tasks": tasks})

    async def succeeded() -> bool:
        return is_true(await fleet.manager.find(PIPELINE_RUN, "hello"), "Succeeded")

    await fleet.until(succeeded, "it does not succeed")
    copy = await worker.find(PIPELINE_RUN, "hello")
    assert copy is not None and "managedBy" not in copy["spec"] and is_true(copy, "Succeeded")

    async def its_pod_ended() -> bool:  # Tekton goes by the containers, the kubelet says it of the pod later
        return [pod["status"]["phase"] for pod in await worker.all(POD)] == ["Succeeded"]

    await fleet.until(its_pod_ended, "its pod has not ended well")
    own = await fleet.manager.find(PIPELINE_RUN, "hello")
    assert own["status"]["childReferences"] == copy["status"]["childReferences"]
    await finished(fleet, count=1)

    async def clean() -> bool:
        return await worker.find(PIPELINE_RUN, "hello") is None

    await fleet.until(clean, "its copy stays on the worker")
    assert is_true(await fleet.manager.find(PIPELINE_RUN, "hello"), "Succeeded")


@pytest.mark.timeout(600)
async def test_fournosjob_minicluster_and_appwrapper(fleet: Fleet) -> None:
    """Side by side: the objects of each run on the worker, and the manager cluster shows their end."""
    image = flux_image(Progress()).tag
    await submit(
        fleet,
        FOURNOS_JOB,
        "job",
        pipeline="fournos-run-only",
        cluster=TARGET,
        exclusive=False,
        hardware={"gpuType": "h200", "gpuCount": 1},
        executionEngine={"forge": {"project": "mock"}},
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
    job = await has(fleet, FOURNOS_JOB, "job", "Succeeded", limit=LIMIT)
    assert job["status"]["cluster"] == TARGET
    flux = await has(fleet, MINICLUSTER, "flux", "Finished", limit=LIMIT)
    assert flux["status"]["exitCode"] == 0
    await has(fleet, APPWRAPPER, "wrapper", "Succeeded", limit=LIMIT)
    await finished(fleet, count=3)
