"""A job's handle: what it shows, its logs, its explanation, and the jobs that repeat it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.client import (
    AsyncClient,
    LogLine,
    ManifestError,
    MissingError,
    NoLogError,
    NotEndedError,
    NotInstalledError,
)
from fournos.client.jobs import AsyncJob
from fournos.engine.kube.resource import JOB, POD, Key, Resource
from fournos.engine.queueing.kinds import LOCAL_QUEUE, WORKLOAD
from fournos.history.estimates import Typical
from fournos.history.records import body
from tests.unit.client.world import NS, SPEC, Api


@pytest.fixture
async def job(client: AsyncClient) -> AsyncJob:
    return await client.submit(SPEC, name="one")


def child(api: Api, resource: Resource, name: str, owner: str, status: dict[str, Any], **rest: Any) -> str:
    """Its UID."""
    meta = {
        "name": name,
        "namespace": NS,
        "labels": {"fournos.dev/job-name": "one", **rest.pop("labels", {})},
        "ownerReferences": [{"kind": "X", "name": "x", "uid": owner, "controller": True}],
    }
    api.server.create(resource, {"kind": resource.kind, "metadata": meta, **rest})
    made = api.server.patch(resource, Key(NS, name), {"status": status}, subresource="status")
    return str(made["metadata"]["uid"])


def task(api: Api, run: str, name: str, *lines: str, state: str = "running") -> None:
    labels = {"tekton.dev/pipelineRun": "one", "tekton.dev/pipelineTask": name}
    uid = child(api, TASK_RUN, f"one-{name}", run, {"startTime": "2030-01-01T00:00:00Z"}, labels=labels)
    pod = {"containerStatuses": [{"name": "step-only", "state": {state: {}}}]}
    spec = {"containers": [{"name": "step-only"}]}
    child(api, POD, f"one-{name}-pod", uid, pod, labels=labels, spec=spec)
    api.server.logs[Key(NS, f"one-{name}-pod")] = list(lines)


def begun(api: Api, job: AsyncJob) -> str:
    """The run's UID."""
    api.set("one", "Running", pipelineRun="one")
    plan = {"pipelineSpec": {"tasks": [{"name": "prepare"}, {"name": "run"}]}}
    return child(api, PIPELINE_RUN, "one", job.uid, plan)


# --- what it shows -----------------------------------------------------------------------------------


async def test_a_handle_shows_the_object_typed(client: AsyncClient, api: Api, job: AsyncJob) -> None:
    assert (job.phase, job.cluster, job.hardware, job.attempts, job.timeline) == (
        "New",
        None,
        "2 x a100",
        (),
        [],
    )
    api.set(
        "one",
        "Running",
        cluster="cluster-1",
        message="two\nlines",
        attempt=2,
        attempts=[{"number": 1, "outcome": "Evicted"}, {"number": 2}],
        conditions=[{"type": "Resolved", "status": "True"}],
        phaseTimes={"pending": "2030-01-01T00:00:00Z", "running": "2030-01-01T00:01:00Z"},
        dashboardURL="https://tekton/one",
    )
    await job.refresh()
    assert (job.cluster, job.message, job.dashboard_url) == ("cluster-1", "two lines", "https://tekton/one")
    assert [attempt.outcome for attempt in job.attempts] == ["Evicted", None]
    assert job.conditions[0].type == "Resolved"
    assert [(entry.phase, entry.current) for entry in job.timeline] == [("Pending", False), ("Running", True)]
    assert job.timeline[0].length.total_seconds() == 60
    assert job.spec.hardware is not None
    assert repr(job) == "<AsyncJob bench/one Running>"


async def test_what_others_write_is_escaped(api: Api, job: AsyncJob) -> None:
    bad = "<script>x</script>\x1b[2J"
    api.set("one", "Failed", message=bad, cluster="<b>", dashboardURL="javascript:alert(1)")
    await job.refresh()
    html = job._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html.replace("<b>one</b>", "")
    assert "javascript" not in html
    assert "&lt;script&gt;" in html


# --- logs --------------------------------------------------------------------------------------------


async def test_the_log_of_the_resolver_while_a_job_is_resolved(api: Api, job: AsyncJob) -> None:
    api.set("one", "Resolving")
    uid = child(api, JOB, "one-resolve", job.uid, {})
    pod = {"containerStatuses": [{"name": "resolve", "state": {"running": {}}}]}
    child(api, POD, "one-resolve-pod", uid, pod, spec={"containers": [{"name": "resolve"}]})
    api.server.logs[Key(NS, "one-resolve-pod")] = ["a"]
    assert [line async for line in job.logs()] == [LogLine("resolver", "a")]
    assert [line async for line in job.logs(resolver=True)] == [LogLine("resolver", "a")]
    with pytest.raises(NoLogError):
        [line async for line in job.logs(task="run")]


async def test_logs_of_what_is_there(api: Api, job: AsyncJob) -> None:
    with pytest.raises(NoLogError, match="no resolve Job"):
        [line async for line in job.logs()]
    run = begun(api, job)
    task(api, run, "prepare", "a", "b", state="terminated")
    task(api, run, "run", "c")
    assert [line async for line in job.logs()] == [
        LogLine("prepare", "a"),
        LogLine("prepare", "b"),
        LogLine("run", "c"),
    ]
    assert [line.text async for line in job.logs(task="run")] == ["c"]
    with pytest.raises(NoLogError) as refusal:
        [line async for line in job.logs(task="rum")]
    assert refusal.value.fix == "tasks that have begun: prepare, run"
    del api.server.logs[Key(NS, "one-run-pod")]  # the pod goes between the list and its log
    gone = LogLine("run", "its pod is gone, and the log with it", notice=True)
    assert await anext(job.logs(task="run")) == gone
    api.server.delete(POD, Key(NS, "one-run-pod"))
    api.server.delete(POD, Key(NS, "one-prepare-pod"))
    with pytest.raises(NoLogError, match="the pods of one are gone"):
        [line async for line in job.logs()]


async def test_following_waits_for_the_pod_and_ends_with_the_job(api: Api, job: AsyncJob) -> None:
    lines: list[LogLine] = []

    async def follow() -> None:
        lines.extend([line async for line in job.logs(follow=True)])

    following = asyncio.create_task(follow())
    await _settled()
    run = begun(api, job)
    task(api, run, "prepare", "a", "b")
    await _settled()
    task(api, run, "run", "c")
    await _settled()
    assert lines == []  # the list is only extended at the end
    api.set("one", "Succeeded", pipelineRun="one")
    async with asyncio.timeout(60):
        await following
    assert [(line.source, line.text) for line in lines] == [("prepare", "a"), ("prepare", "b"), ("run", "c")]
    assert +api.open == {}


async def test_no_line_is_read_before_the_last_one_was_taken(api: Api, job: AsyncJob) -> None:
    run = begun(api, job)
    task(api, run, "run")
    read = 0

    async def endless(*_: object, **__: object) -> Any:
        async def lines() -> Any:
            nonlocal read
            while True:
                read += 1
                yield f"line {read}"

        return lines()

    api.logs = endless  # type: ignore[method-assign]
    following = job.logs(follow=True)
    assert (await anext(following)).text == "line 1"
    await _settled()
    assert read <= 4  # in hand, in the queue, at the queue's door
    before = asyncio.all_tasks()
    await following.aclose()  # type: ignore[attr-defined]
    assert len(asyncio.all_tasks()) < len(before)
    assert +api.open == {}


async def test_following_a_job_that_is_deleted(api: Api, job: AsyncJob) -> None:
    following = asyncio.create_task(anext(job.logs(follow=True)))
    await _settled()
    api.server.delete(FOURNOS_JOB, Key(NS, "one"))
    with pytest.raises(MissingError, match="was deleted"):
        await following


async def _settled() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


# --- why it waits, what it does ----------------------------------------------------------------------


async def test_explain_and_tasks(client: AsyncClient, api: Api, job: AsyncJob) -> None:
    assert "No operator has looked at one yet" in (await job.explain()).verdict
    api.set("one", "Pending", message="Waiting")
    found = await job.explain()
    assert found.verdict == "one waits for LocalQueue fournos-queue, which namespace bench does not have."
    client.queue_name = "other"
    assert "LocalQueue other" in (await job.explain()).verdict
    api.server.unserved.add(LOCAL_QUEUE)
    assert (await job.explain()).verdict == "one waits for Kueue, which is not installed."
    api.server.unserved.add(WORKLOAD)
    assert await job.tasks() == []
    task(api, begun(api, job), "prepare")
    assert [(one.name, one.state) for one in await job.tasks()] == [
        ("prepare", "Running"),
        ("run", "Waiting"),
    ]
    api.server.unserved.add(FOURNOS_JOB)
    with pytest.raises(NotInstalledError):
        await job.tasks()


# --- stop, delete, repeat ----------------------------------------------------------------------------


async def test_stopping_is_bound_to_this_job(api: Api, job: AsyncJob) -> None:
    api.set("one", "Running")
    verdict = await job.stop()
    assert (verdict.ended, verdict.spec, job.raw["spec"]["shutdown"]) == (False, {"shutdown": "Stop"}, "Stop")
    assert "already (Stop)" in (await job.stop()).message
    await job.stop(now=True)
    assert api.job("one")["spec"]["shutdown"] == "Terminate"
    api.set("one", "Stopped")
    assert (await job.stop()).ended
    assert sum("patch" in write for write in api.writes) == 2
    await job.delete()
    assert api.server.find(FOURNOS_JOB, Key(NS, "one")) is None


async def test_a_retry_takes_the_spec_over_and_says_what_is_found_anew(api: Api, job: AsyncJob) -> None:
    with pytest.raises(NotEndedError, match="one has not ended: it is New"):
        await job.retry()
    api.server.patch(
        FOURNOS_JOB,
        Key(NS, "one"),
        {"spec": {"shutdown": "Stop", "secretRefs": ["a"]}, "metadata": {"labels": {"team": "x"}}},
    )
    api.set("one", "Stopped")
    again = await job.retry(priority="high", cluster=None, exclusive=False)
    assert again.name.startswith("one-")
    assert again.raw["spec"] == {
        **{field: value for field, value in SPEC.items() if field != "cluster"},
        "owner": "perf",
        "secretRefs": ["a"],
        "priority": "high",
        "exclusive": False,
    }
    assert again.raw["metadata"]["labels"] == {"team": "x"}
    assert again.repeats is not None
    assert again.repeats.of == "one"
    assert again.repeats.changed == ("cluster", "exclusive", "priority")
    assert again.repeats.taken_over == ("executionEngine", "hardware", "owner", "secretRefs")
    assert "the cluster" in again.repeats.found_anew
    assert "hardware" not in again.repeats.found_anew
    with pytest.raises(ManifestError, match="no field of a job's spec: prioritty"):
        await job.retry(prioritty="high")
    typed = await job.retry(secret_refs=["b"])
    assert typed.raw["spec"]["secretRefs"] == ["b"]


async def test_an_estimate_is_one_sentence(api: Api, job: AsyncJob) -> None:
    typical = Typical("one", NS, job.uid, None, 2400.0, 12)
    api.stored = {f"/apis/history.fournos.dev/v1/namespaces/{NS}/estimates/{job.uid}": body(typical, Typical)}
    api.set("one", "Pending", message="waits")
    await job.refresh()
    assert await job.estimate() == (
        f"one waits for LocalQueue fournos-queue, which namespace {NS} does not have, "
        "its kind takes 40m (median of 12)."
    )


async def test_a_retry_with_changes_by_path(api: Api, job: AsyncJob) -> None:
    api.set("one", "Failed")
    again = await job.retry({"hardware.gpuCount": 4, "env.MODEL": "a.b", "metadata.labels.x": "y"})
    assert again.raw["spec"]["hardware"] == {"gpuType": "a100", "gpuCount": 4}
    assert again.raw["spec"]["env"] == {"MODEL": "a.b"}
    assert again.raw["metadata"]["labels"] == {"x": "y"}
    assert job.raw["spec"]["hardware"]["gpuCount"] == 2
    with pytest.raises(ManifestError, match="write at least 1"):
        await job.retry({"hardware.gpuCount": 0})
