"""Jobs that their ttl has deleted: the history answers in their place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.client import AsyncClient, DeletedError, JobFailed, KeyConflict, MissingError, NoLogError
from fournos.client.errors import NoHistoryError
from fournos.client.job_methods import read_recorded_job, recorded_job
from fournos.engine.kube.resource import key_of
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Detail, Ending, body
from tests.history import a_run, at, ended, keep_logs
from tests.unit.client.world import NS, SPEC, Api

RUNS = f"/apis/history.fournos.dev/v1/namespaces/{NS}/runs"


def keep(api: Api, job: Any, *, open_: bool = False) -> None:
    """Puts a job into the history as it is."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    run = ended(a_run(1, name=name))
    identity = replace(run.identity, namespace=NS, uid=uid)
    run = replace(run, identity=identity, ending=Ending.OPEN if open_ else Ending.OBSERVED)
    api.stored[f"{RUNS}/{name}?kind=FournosJob"] = body(Detail(run), Detail)
    api.stored[f"{RUNS}/{uid}/documents/object"] = json.dumps(job).encode()


async def delete(api: Api, job: Any, phase: str = "Succeeded") -> Any:
    """The job ends, is recorded, and its ttl deletes it."""
    last = {**job, "status": {"phase": phase, "message": "it was so"}}
    keep(api, last)
    await api.delete(FOURNOS_JOB, key_of(job), uid=job["metadata"]["uid"])
    return last


async def test_a_deleted_job_is_found_by_name(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS)
    job = await client.submit(SPEC, name="one")
    await delete(api, job.raw, "Failed")
    found = await client.job("one")
    assert (found.uid, found.phase, found.message) == (job.uid, "Failed", "it was so")
    with pytest.raises(JobFailed):
        await found.wait()


async def test_the_same_key_after_the_ttl_is_the_same_job(api: Api) -> None:
    api.stored["/other"] = b"{}"
    client = AsyncClient(api=api, namespace=NS, owner="ci")
    job = await client.submit(SPEC, key="build-7")
    await delete(api, job.raw)
    again = await client.submit(SPEC, key="build-7")
    assert (again.uid, again.phase) == (job.uid, "Succeeded")
    with pytest.raises(KeyConflict):
        await client.submit({**SPEC, "hardware": {"gpuType": "a100", "gpuCount": 4}}, key="build-7")
    assert (await client.submit(SPEC, key="build-8")).uid != job.uid


async def test_a_recorded_job_is_read_by_name_and_an_error_says_why_it_is_not(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS)
    with pytest.raises(NoHistoryError):
        await read_recorded_job(client.history, "one")
    job = await client.submit(SPEC, name="one")
    await delete(api, job.raw, "Failed")
    found = await read_recorded_job(client.history, "one")
    assert (found.job["status"]["phase"], found.run.run.identity.uid) == ("Failed", job.uid)
    with pytest.raises(MissingError):
        await read_recorded_job(client.history, "two")
    assert await recorded_job(client.history, "two") is None


async def test_a_live_job_comes_from_the_cluster(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS, owner="ci")
    job = await client.submit(SPEC, key="build-7")
    keep(api, {**job.raw, "status": {"phase": "Failed"}})
    assert (await client.submit(SPEC, key="build-7")).phase == "New"
    assert (await client.job(job.name)).phase == "New"


async def test_a_job_whose_end_was_not_recorded_is_missing(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS)
    job = await client.submit(SPEC, name="one")
    await delete(api, job.raw)
    keep(api, job.raw, open_=True)
    with pytest.raises(MissingError):
        await client.job("one")


async def test_without_a_history_it_is_asked_for_once(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS, owner="ci")
    for number in range(3):
        await client.submit(SPEC, key=f"build-{number}")
    assert api.calls["raw"] == 1
    with pytest.raises(MissingError):
        await client.job("nothing")


LOGS = {
    ContainerLog(
        "pod", "u", "step-run", "bench", 1, 0, at(0), at(9), 3, 9, failing_line=2
    ): "start\nfatal: x",
    ContainerLog("pod", "u", "step-clean", "bench", 1, 1, at(0), at(9), 0, 9): "clean\n",
}


def keep_log(api: Api, run: str) -> None:
    keep_logs(api.stored, f"{RUNS}/{run}", LOGS)


async def test_the_log_of_a_job_that_is_gone_comes_from_the_history(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS)
    job = await client.submit(SPEC, name="one")
    await delete(api, job.raw, "Failed")
    keep_log(api, job.uid)
    assert [(line.source, line.text) async for line in job.logs()] == [
        ("bench/run", "start"),
        ("bench/run", "fatal: x"),
        ("bench/clean", "clean"),
    ]
    assert [line.text async for line in job.logs(tail=1)] == ["fatal: x", "clean"]
    assert await client.history.stored_logs(job.uid) == list(LOGS)
    assert await client.history.stored_logs(job.uid, attempt=2) == []


async def test_and_of_a_job_whose_pods_are_gone(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS)
    job = await client.submit(SPEC, name="one")
    api.set("one", "Failed", pipelineRun="one")
    keep_log(api, job.uid)
    assert [line.text async for line in job.logs()] == ["start", "fatal: x", "clean"]
    assert len([line async for line in job.logs(task="bench", attempt=1)]) == 3


async def test_without_a_stored_log_the_error_is_the_one_of_the_pods(api: Api) -> None:
    client = AsyncClient(api=api, namespace=NS)
    job = await client.submit(SPEC, name="one")
    api.set("one", "Failed", pipelineRun="one")
    for stored in ({}, {"/other": b"{}"}):
        api.stored = stored
        with pytest.raises(NoLogError, match="the pods of one are gone"):
            _ = [line async for line in job.logs()]
    await delete(api, job.raw)
    with pytest.raises(DeletedError):
        _ = [line async for line in job.logs()]
