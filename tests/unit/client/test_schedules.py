"""A schedule's handle: what is created and refused, what is written, what a trigger waits for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.client import (
    AsyncClient,
    Client,
    DeletedError,
    FournosError,
    ManifestError,
    MissingError,
    WaitTimeout,
)
from fournos.client.schedules import AsyncSchedule
from fournos.engine.kube.resource import Key
from fournos.insight.schedules import ScheduleState
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TRIGGER_ANNOTATION
from tests.documents import sections
from tests.unit.client.kinds import started, status
from tests.unit.client.world import NS, SPEC, Api

KEY = Key(NS, "nightly")
PAGE = Path(__file__).parents[3] / "docs" / "client-kinds.md"
DAILY = {"time_zone": "Europe/Berlin"}


async def nightly(client: AsyncClient, **options: Any) -> AsyncSchedule:
    return await client.create_schedule("nightly", SPEC, "0 2 * * *", **DAILY, **options)


def stored(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.server.get(FOURNOS_SCHEDULE, KEY)
    return found


def trigger_of(schedule: dict[str, Any]) -> str:
    return str(schedule["metadata"]["annotations"][TRIGGER_ANNOTATION])


def child(api: Api, name: str, uid: str, **annotations: str) -> None:
    labels = {SCHEDULE_UID_LABEL: uid}
    meta = {"name": name, "namespace": NS, "labels": labels, "annotations": annotations}
    api.server.create(FOURNOS_JOB, {"kind": "FournosJob", "metadata": meta, "spec": {}})


async def test_a_schedule_is_created_from_a_job_and_found_again(client: AsyncClient, api: Api) -> None:
    made = await nightly(
        client, matrix={"params.model": ["a", "b"]}, concurrency_policy="Replace", startingDeadlineSeconds=60
    )
    assert stored(api)["spec"] == {
        "schedules": ["0 2 * * *"],
        "timeZone": "Europe/Berlin",
        "jobTemplate": {"spec": {**SPEC, "owner": "perf"}},
        "matrix": {"params.model": ["a", "b"]},
        "concurrencyPolicy": "Replace",
        "startingDeadlineSeconds": 60,
    }
    assert (made.times, made.time_zone, made.phase, made.last_outcome) == (
        ("0 2 * * *",),
        "Europe/Berlin",
        "Idle",
        None,
    )
    assert made.spec.starting_deadline_seconds == 60 and made.status.active == ()
    assert [one.name for one in await client.schedules()] == ["nightly"]
    assert (await client.schedule("nightly")).uid == made.uid
    with pytest.raises(MissingError) as refusal:
        await client.schedule("nightl")
    assert refusal.value.fix == "did you mean nightly?"


@pytest.mark.parametrize(
    ("times", "options", "error", "says"),
    [
        ("0 2 L * *", DAILY, FournosError, "'0 2 L \\* \\*' is no time of a schedule"),
        (["@daily", "0 2 * * 5#2"], DAILY, FournosError, "5#2"),
        ("@daily", {"time_zone": "Mars/Base"}, FournosError, "is no time zone"),
        ("@daily", {**DAILY, "matrix": {"params.a": []}}, ManifestError, "has no list of values"),
        (
            "@daily",
            {**DAILY, "concurency": "Replace"},
            ManifestError,
            "no field of a schedule's spec: concurency",
        ),
        (
            "@daily",
            {**DAILY, "matrix": {"hardware.gpuCount": [0, 1]}},
            ManifestError,
            "jobTemplate.spec.hardware.gpuCount: write at least 1",
        ),
    ],
)
async def test_what_is_refused(
    client: AsyncClient, api: Api, times: Any, options: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await client.create_schedule("nightly", SPEC, times, **options)
    assert api.writes == []


async def test_a_suspension_begins_and_ends(client: AsyncClient, api: Api) -> None:
    made = await nightly(client)
    assert len(made.next_times()) == 3
    await made.suspend("new GPUs")
    assert stored(api)["spec"]["suspend"] == {"reason": "new GPUs"}
    assert (made.phase, made.message, made.next_times()) == ("Suspended", "new GPUs", [])
    end = datetime(2126, 1, 1, tzinfo=UTC)
    await made.suspend(until=end)
    assert stored(api)["spec"]["suspend"] == {"until": "2126-01-01T00:00:00Z"}
    assert made.next_times(1)[0].isoformat() == "2126-01-01T02:00:00+01:00"
    with pytest.raises(FournosError, match="has passed already"):
        await made.suspend(until=datetime(2020, 1, 1, tzinfo=UTC))
    await made.resume()
    assert "suspend" not in stored(api)["spec"]
    with pytest.raises(FournosError, match="is not suspended"):
        await made.resume()


async def test_a_trigger_waits_for_its_jobs(client: AsyncClient, api: Api) -> None:
    made = await nightly(client)
    triggering = await started(made.trigger())
    asked = trigger_of(stored(api))
    claim = {"time": "2030-01-01T00:00:01Z", "startedAt": "2030-01-01T00:00:01Z", "jobs": 1}
    claim["trigger"] = asked
    status(api, FOURNOS_SCHEDULE, "nightly", lastTrigger=asked, active=[claim])
    triggering = await started(triggering)  # claimed, but the jobs are not created yet
    child(api, "nightly-x", made.uid, **{TRIGGER_ANNOTATION: asked})
    child(api, "nightly-y", made.uid, **{TRIGGER_ANNOTATION: "another"})
    status(api, FOURNOS_SCHEDULE, "nightly", active=[{**claim, "created": True}])
    assert [job.name for job in await triggering] == ["nightly-x"]
    assert [job.name for job in await made.jobs()] == ["nightly-x", "nightly-y"]
    assert made.phase == "Active"


async def test_each_trigger_has_its_own_id_and_need_not_be_waited_for(client: AsyncClient, api: Api) -> None:
    made = await nightly(client)
    ids = set()
    for _ in range(2):
        assert await made.trigger(timeout=0) == []
        ids.add(trigger_of(stored(api)))
    assert len(ids) == 2
    with pytest.raises(WaitTimeout, match="the operator has not taken up trigger"):
        await made.trigger(timeout=0.01)


async def test_a_trigger_of_what_cannot_be_used_is_not_written(client: AsyncClient, api: Api) -> None:
    made, before = await nightly(client), len(api.writes)
    refused = {"type": "Accepted", "status": "False", "message": "no zone Mars"}
    status(api, FOURNOS_SCHEDULE, "nightly", conditions=[refused])
    with pytest.raises(FournosError, match="nightly cannot be used: no zone Mars"):
        await made.trigger()
    assert len(api.writes) == before


async def test_jobs_stay_unless_they_are_deleted_too(client: AsyncClient, api: Api) -> None:
    made = await nightly(client)
    child(api, "nightly-1", made.uid)
    child(api, "other", "another-uid")
    await made.delete()
    assert {job.name for job in await client.jobs()} == {"other", "nightly-1"}
    with pytest.raises(DeletedError):
        await made.refresh()
    again = await nightly(client)
    child(api, "nightly-2", again.uid)
    await again.delete(cascade=True)
    assert {job.name for job in await client.jobs()} == {"other", "nightly-1"}


def test_the_page_is_true(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(api=api, namespace=NS) as client:
        for block in sections(PAGE)["Schedules"]:
            exec(compile(block, str(PAGE), "exec"), {"client": client})
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 5 and all(":00+0" in time for time in out[:3])
    assert out[3:] == ["Suspended the cluster gets new GPUs", "Replace"]


def test_the_phases_are_those_that_are_known() -> None:
    assert set(AsyncSchedule._phases) == {each.value for each in ScheduleState}


def test_a_program_without_an_event_loop(api: Api) -> None:
    with Client(api=api, namespace=NS, owner="perf") as client:
        made = client.create_schedule("nightly", SPEC, "@daily", **DAILY)
        child(api, "nightly-1", made.uid)
        assert [job.name for job in made.jobs()] == ["nightly-1"]
        made.suspend("x")
        assert client.schedule("nightly").phase == "Suspended"
        made.resume()
        assert repr(client.schedules()[0]) == "<Schedule bench/nightly Idle>"
        assert made.trigger(timeout=0) == []
        assert trigger_of(stored(api))
        made.delete(cascade=True)
        assert client.jobs() == []
