"""The jobs of `make demo`: which of them are submitted, and when their ends count as recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from dev.demo_jobs import SAMPLES, SLOW, lacking, recorded
from devcluster import DevclusterError
from fournos.api.kinds import FOURNOS_JOB
from fournos.client import AsyncClient
from fournos.engine.kube.resource import key_of
from tests.unit.client.kinds import settled
from tests.unit.client.world import NS, SPEC, Api
from tests.waiting import until


async def test_recorded_jobs_are_waited_for_by_one_watch() -> None:
    api = Api()
    client = AsyncClient(api=api, namespace=NS)
    jobs = [(await client.submit(SPEC, name=name)).raw for name in ("one", "two")]
    waits = [asyncio.create_task(recorded(client, job)) for job in jobs]
    await until(lambda: api.open[FOURNOS_JOB] == 1)
    for name in ("one", "two"):
        api.set(name, "Succeeded")
    await settled()
    assert not any(wait.done() for wait in waits)
    for name in ("one", "two"):
        api.set(name, "Succeeded", archivedAt="2030-01-01T00:00:00Z")
    found = await asyncio.wait_for(asyncio.gather(*waits), 60)
    assert [job["metadata"]["name"] for job in found] == ["one", "two"]
    assert api.calls["watch"] == 1


async def test_a_job_that_is_deleted_before_its_record_is_an_error() -> None:
    api = Api()
    client = AsyncClient(api=api, namespace=NS)
    job = (await client.submit(SPEC, name="one")).raw
    waiting = asyncio.create_task(recorded(client, job))
    await until(lambda: api.open[FOURNOS_JOB] == 1)
    await api.delete(FOURNOS_JOB, key_of(job), uid=job["metadata"]["uid"])
    with pytest.raises(DevclusterError, match="one was deleted before its end was recorded"):
        await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize(
    ("plain", "slow", "begun", "submitted"),
    [
        (0, 0, {}, ["demo-"] * SAMPLES + [SLOW]),
        (SAMPLES, 1, {}, ["demo-"]),
        (SAMPLES + 5, 0, {}, ["demo-", SLOW]),
        (0, 0, {"demo-": 1}, ["demo-"] * (SAMPLES - 1) + [SLOW]),
        (0, 0, {"demo-": SAMPLES, SLOW: 1}, []),
        (SAMPLES, 0, {SLOW: 1}, ["demo-"]),
        (1, 1, {"demo-": 1}, ["demo-"] * (SAMPLES - 2)),
    ],
    ids=["first", "again", "no slow one", "killed at once", "killed later", "one to follow", "in between"],
)
def test_only_what_is_lacking_is_submitted(
    plain: int, slow: int, begun: Mapping[str, int], submitted: list[str]
) -> None:
    """Jobs of a demonstration that was killed are waited for, not submitted once more."""
    assert lacking("demo-", plain=plain, slow=slow, begun=begun) == submitted
