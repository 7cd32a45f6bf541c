"""Waiting and watching: what is seen, how it ends, and what it costs."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.client import (
    AsyncClient,
    Category,
    DeletedError,
    FournosError,
    JobFailed,
    JobStopped,
    MissingError,
    NotAllowedError,
    WaitTimeout,
)
from fournos.client.jobs import AsyncJob
from fournos.client.watches import LASTING, Watches
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError
from fournos.engine.kube.resource import Key
from tests.unit.client.world import NS, SPEC, Api


@pytest.fixture
async def job(client: AsyncClient) -> AsyncJob:
    return await client.submit(SPEC, name="one")


async def waiting(job: AsyncJob, **options: object) -> asyncio.Task[None]:
    """A wait that has begun."""
    task = asyncio.create_task(job.wait(**options))  # type: ignore[arg-type]
    await settled()
    return task


async def settled() -> None:
    """Everything that can run without time passing has run."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.looptime
async def test_the_end_and_its_forms(client: AsyncClient, api: Api, job: AsyncJob) -> None:
    task = await waiting(job)
    api.set("one", "Succeeded")
    async with asyncio.timeout(0.1):
        await task
    assert (job.phase, job.succeeded, job.ended) == ("Succeeded", True, True)
    await job.wait()  # also when it is over

    two = await client.submit(SPEC, name="two")
    api.set("two", "Stopped", message="Job stopped by user")
    with pytest.raises(JobStopped, match="two was stopped: Job stopped by user"):
        await two.wait()
    three = await client.submit(SPEC, name="three")
    failed = [{"type": "Resolved", "status": "False", "reason": "ClusterNotFound", "message": "no cluster-9"}]
    api.set("three", "Failed", message="no cluster-9", conditions=failed)
    with pytest.raises(JobFailed) as end:
        await three.wait()
    assert end.value.failure.category is Category.REQUEST
    assert end.value.job is three
    assert "three failed (request): no cluster-9" in end.value.message


async def test_a_phase_that_was_passed_counts(api: Api, job: AsyncJob) -> None:
    task = await waiting(job, until="Running")
    api.set("one", "Pending")
    await settled()
    assert not task.done()
    api.set("one", "Failed", phaseTimes={"running": "2030-01-01T00:00:00Z"})
    await task  # it ran, which was asked for
    task = await waiting(job, until="Admitted")
    with pytest.raises(JobFailed):
        await task
    with pytest.raises(FournosError, match="done is not a phase"):
        await job.wait("done")


@pytest.mark.parametrize("limit", [0.01, timedelta(milliseconds=10)])
async def test_the_time_is_over_and_the_job_goes_on(
    api: Api, job: AsyncJob, limit: float | timedelta
) -> None:
    with pytest.raises(WaitTimeout, match=r"one has not ended within 0\.01 s: it is New"):
        await job.wait(timeout=limit)
    assert api.open == {FOURNOS_JOB: 0}
    assert api.writes == ["create fournosjobs.fournos.dev bench/one"]


async def test_a_handle_keeps_to_its_uid(client: AsyncClient, api: Api, job: AsyncJob) -> None:
    task = await waiting(job)
    api.server.delete(FOURNOS_JOB, Key(NS, "one"))
    other = await client.submit(SPEC, name="one")
    with pytest.raises(DeletedError, match=r"job one \(uid-1\) was deleted"):
        await task
    for call in (job.refresh, job.stop, job.delete, job.explain, job.tasks, job.wait):
        with pytest.raises(DeletedError):
            await call()
    with pytest.raises(DeletedError):
        [line async for line in job.logs()]
    assert "shutdown" not in api.job("one")["spec"]
    await other.stop()
    assert api.job("one")["spec"]["shutdown"] == "Stop"


async def test_a_thousand_waits_share_one_watch(client: AsyncClient, api: Api) -> None:
    jobs = await client.submit_matrix(SPEC, {"env.N": [str(n) for n in range(1000)]})
    seen: list[tuple[int, int]] = []
    task = asyncio.create_task(client.wait_all(jobs, progress=lambda done, of, job: seen.append((done, of))))
    await settled()
    assert (api.open[FOURNOS_JOB], api.calls["watch"]) == (1, 1)
    assert (api.calls["get fournosjobs.fournos.dev"], api.calls["list fournosjobs.fournos.dev"]) == (0, 1)
    for job in jobs:
        api.set(job.name, "Succeeded" if job is not jobs[0] else "Failed")
    await task
    assert seen == [(n + 1, 1000) for n in range(1000)]
    assert jobs[0].phase == "Failed"
    assert api.open[FOURNOS_JOB] == 0
    assert api.calls["watch"] == 1


async def test_waiting_for_all_ends_with_what_cannot_be_waited_for(client: AsyncClient, api: Api) -> None:
    jobs = await client.submit_matrix(SPEC, {"env.N": ["a", "b"]})
    with pytest.raises(WaitTimeout, match="2 of 2 jobs have not ended in time"):
        await client.wait_all(jobs, timeout=0.01)
    await jobs[0].delete()
    with pytest.raises(DeletedError):
        await client.wait_all(jobs)
    assert api.open[FOURNOS_JOB] == 0


async def test_events_are_what_changed(client: AsyncClient, api: Api, job: AsyncJob) -> None:
    events = []

    async def watch() -> None:
        async for event in job.watch():
            events.append((event.before, event.phase, event.message, event.ended))

    task = asyncio.create_task(watch())
    await settled()
    api.set("one", "Pending", message="no room")
    await settled()
    api.server.patch(FOURNOS_JOB, Key(NS, "one"), {"metadata": {"labels": {"a": "b"}}})
    await settled()
    api.set("one", "Succeeded", message="done")
    await task
    assert events == [
        (None, "New", "", False),
        ("New", "Pending", "no room", False),
        ("Pending", "Succeeded", "done", True),
    ]
    assert (job.phase, job.raw["metadata"]["labels"]) == ("Succeeded", {"a": "b"})


# --- faults ------------------------------------------------------------------------------------------

GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {}}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_right_that_is_lost_ends_the_waiting(
    client: AsyncClient, api: Api, job: AsyncJob, status: int
) -> None:
    def refused(number: int) -> None:
        raise ForbiddenError("may not watch", status=status)

    api.on_watch = refused
    with pytest.raises(NotAllowedError, match="may not watch") as refusal:
        await job.wait()
    assert refusal.value.fix


async def test_a_broken_connection_is_reported_only_when_it_lasts(api: Api, job: AsyncJob) -> None:
    cut = True

    def broken(number: int) -> None:
        if cut:
            raise ConnectionLostError("cut")

    api.on_watch = broken
    async with Watches(api).follow(FOURNOS_JOB, job.raw) as following:
        for _ in range(10):
            await following.change(within=0)
        assert following.watch_error is None
        assert following._cut_at is not None
        following._cut_at -= LASTING
        assert str(following.watch_error) == "cut"
        assert following.object == job.raw
        cut = False
        async with asyncio.timeout(60):
            while following.watch_error is not None:
                await following.change()


async def test_cancelling_leaves_nothing_behind(api: Api, job: AsyncJob) -> None:
    before = asyncio.all_tasks()
    task = await waiting(job)
    assert api.open[FOURNOS_JOB] == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert api.open[FOURNOS_JOB] == 0
    assert asyncio.all_tasks() == before


# --- finding -----------------------------------------------------------------------------------------


async def test_finding_jobs(client: AsyncClient, api: Api) -> None:
    for name in ("alpha", "beta"):
        await client.submit(SPEC, name=name)
    await client.submit(SPEC, name="zeta", owner="other")
    api.set("beta", "Running", cluster="cluster-7")
    assert (await client.job()).name == "alpha"  # of mine, all made in one second
    assert [job.name for job in await client.jobs(phase="active", owner="perf")] == ["alpha", "beta"]
    assert [job.name for job in await client.jobs(cluster="cluster-7")] == ["beta"]
    with pytest.raises(MissingError) as refusal:
        await client.job("alpja")
    assert refusal.value.fix == "did you mean alpha?"
    with pytest.raises(FournosError, match="nope is not a phase"):
        await client.jobs(phase="nope")


@pytest.mark.looptime
async def test_a_timeout_says_why_the_job_waits(job: AsyncJob) -> None:
    with pytest.raises(
        WaitTimeout, match=r"one has not ended within 5 s: it is New.*No operator has looked"
    ) as late:
        await job.wait(timeout=5)
    assert "No operator has looked at one yet" in late.value.verdict
    with pytest.raises(WaitTimeout) as silent:
        await job.settle(timeout=5)
    assert silent.value.verdict == "", "settle asks for nothing more"


@pytest.mark.looptime
async def test_an_explanation_that_fails_does_not_hide_the_timeout(
    job: AsyncJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: AsyncJob) -> None:
        raise FournosError("no", fix="none")

    monkeypatch.setattr(AsyncJob, "explain", refused)
    with pytest.raises(WaitTimeout, match="one has not ended within 5 s") as late:
        await job.wait(timeout=5)
    assert late.value.verdict == ""
