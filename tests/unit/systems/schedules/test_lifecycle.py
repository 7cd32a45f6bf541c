"""Schedules in the in-memory world: each story also runs through every crash, stale view, lost event and
failed write, and must end alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Key, Obj
from fournos.systems.schedules.names import TRIGGER_ANNOTATION
from tests.unit.systems.schedules.actors import (
    CONTROLLER,
    HOUR,
    KEY,
    NS,
    created,
    each_once,
    edit,
    end,
    ended_fires_are_settled,
    jobs,
    later,
    remove,
    status,
    stop,
    submit,
)
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server

FIRST, SECOND, THIRD = (f"nightly-203001{day:02}0200" for day in (1, 2, 3))
SUCCEED = (end("Succeeded"),)
PAUSE = edit(suspend={"reason": "the story ends"})
AXES = {"params.model": ["a", "b"], "hardware.gpuCount": [1, 2], "hardware.gpuType": ["a100"]}


def nothing(server: Server) -> None:
    pass


def story(*script: Callable[[Server], None], actors: Any = SUCCEED, **fields: Any) -> Scenario:
    """A night is at 02:00; the first follows the first action, each other one the action `later`."""
    return Scenario(
        CONTROLLER,
        fields.pop("setup", nothing),
        actors,
        script,
        invariants=(each_once,),
        horizon=22 * HOUR,
        end_unseen=ended_fires_are_settled,
        lags=(1, 2, 3, 5, 8),
        **fields,
    )


def foreign(server: Server) -> None:
    server.create(FOURNOS_JOB, {"metadata": {"name": f"{FIRST}-1", "namespace": NS}, "spec": {}})
    server.patch(FOURNOS_JOB, Key(NS, f"{FIRST}-1"), {"status": {"phase": "Running"}}, subresource="status")


def delete_first(server: Server) -> None:
    if FIRST in jobs(server):
        server.delete(FOURNOS_JOB, Key(NS, FIRST))


NIGHTLY = story(submit(), later, PAUSE)
MATRIX = story(submit(matrix=AXES), PAUSE)
STORIES = {
    "nightly": NIGHTLY,
    "matrix": MATRIX,
    "a foreign job has a name": story(submit(matrix=AXES), PAUSE, setup=foreign),
    "forbid": story(submit(), later, PAUSE, actors=()),
    "replace": story(submit(concurrencyPolicy="Replace"), later, PAUSE, actors=(stop,)),
    "allow": story(submit(concurrencyPolicy="Allow"), later, PAUSE, actors=()),
    "failures": story(submit(stopAfterFailures=2), later, later, actors=(end("Failed"),)),
    "deleted in its period": story(submit(), delete_first, later, PAUSE, actors=()),
    "limits": story(submit(historyLimits={"succeeded": 1}), later, later, PAUSE),
    "deleted schedule": story(submit(), remove, actors=()),
}


@pytest.mark.parametrize("disturbance", DISTURBED)
@pytest.mark.parametrize("name", STORIES)
async def test_it_survives(name: str, disturbance: str) -> None:
    assert await DISTURBED[disturbance](STORIES[name]) > 1


async def ran(name: str) -> Server:
    return (await run(STORIES[name])).server


async def test_a_night_is_one_job_with_its_provenance() -> None:
    server = await ran("nightly")
    assert jobs(server) == {FIRST: "Succeeded", SECOND: "Succeeded"}
    job = server.get(FOURNOS_JOB, Key(NS, FIRST))
    meta = job["metadata"]
    assert meta["labels"] == {
        "fournos.dev/schedule": "nightly",
        "fournos.dev/schedule-uid": server.get(FOURNOS_SCHEDULE, KEY)["metadata"]["uid"],
        "fournos.dev/schedule-time": "203001010200",
    }
    assert meta["annotations"] == {
        "fournos.dev/schedule-generation": "1",
        "fournos.dev/scheduled-at": "2030-01-01T02:00:00Z",
    }
    assert "ownerReferences" not in meta, "its schedule may be deleted"
    assert job["spec"]["timeouts"] == {"pending": "24h0m0s"}


async def test_the_status_is_small_and_written_at_begin_and_end_of_a_fire_alone() -> None:
    ended = await run(NIGHTLY)
    writes = [write for write in ended.process.api.writes if "fournosschedules" in write]
    # Accepted; of each night taken up, created, ended; the generation that is suspended.
    assert len(writes) == 1 + 2 * 3 + 1, writes
    found = status(ended.server)
    assert found["lastFire"] == {"time": "2030-01-02T02:00:00Z", "outcome": "Succeeded"}
    assert found["lastSuccessTime"] == "2030-01-02T02:00:00Z"
    assert {"active", "failures", "missed", "nextTime"} & found.keys() == set()


async def test_a_matrix_is_one_fire_of_several_jobs() -> None:
    server = await ran("matrix")
    made = [server.get(FOURNOS_JOB, Key(NS, f"{FIRST}-{number}"))["spec"] for number in range(4)]
    values = [(spec["params"]["model"], spec["hardware"]["gpuCount"]) for spec in made]
    assert values == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


async def test_a_name_that_is_taken_costs_one_job_and_is_said() -> None:
    ended = await run(STORIES["a foreign job has a name"])
    assert len(jobs(ended.server)) == 4 and jobs(ended.server)[f"{FIRST}-1"] == "Running"
    last = status(ended.server)["lastFire"]
    assert (last["outcome"], last["message"]) == ("Failed", "1 of 4 jobs could not be created")


async def test_forbid_skips_and_says_because_of_what() -> None:
    server = await ran("forbid")
    found = status(server)
    assert list(jobs(server)) == [FIRST]
    assert found["missed"] == {"count": 1, "reason": "Overlap", "time": "2030-01-02T02:00:00Z"}
    overlapping = condition({"status": found}, "Overlapping") or {}
    assert overlapping["status"] == "True"
    assert overlapping["message"] == (
        f"The fire of 203001020200 was skipped, because of FournosJob {FIRST} (new)"
    )


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("replace", {FIRST: "Stopped", SECOND: ""}),
        ("allow", {FIRST: "", SECOND: ""}),
        ("limits", {SECOND: "Succeeded", THIRD: "Succeeded"}),
        ("deleted in its period", {SECOND: ""}),
        ("deleted schedule", {FIRST: ""}),
    ],
)
async def test_which_jobs_there_are_in_the_end(name: str, left: dict[str, str]) -> None:
    server = await ran(name)
    assert jobs(server) == left
    assert len(created(server)) == len(left) + (name in ("limits", "deleted in its period"))
    if name == "deleted schedule":
        assert not server.list(FOURNOS_SCHEDULE)
    else:
        assert len(status(server).get("active") or ()) == list(left.values()).count("")


async def test_failures_in_a_row_suspend_the_schedule_and_a_person_goes_on() -> None:
    server = await ran("failures")
    assert list(jobs(server)) == [FIRST, SECOND]
    reason = server.get(FOURNOS_SCHEDULE, KEY)["spec"]["suspend"]["reason"]
    assert reason == f"2 fires in a row failed, the last one: failed: {SECOND}"
    resumed = await run(
        replace(STORIES["failures"], script=(*STORIES["failures"].script, edit(suspend=None), PAUSE))
    )
    assert len(jobs(resumed.server)) == 3 and status(resumed.server)["failures"] == 1


# --- triggers: a fire by hand, once for each, that counts as active and moves no time --------------------

PAUSED: Any = {"reason": "new GPUs"}


def trigger(name: str) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        server.patch(FOURNOS_SCHEDULE, KEY, {"metadata": {"annotations": {TRIGGER_ANNOTATION: name}}})

    return act


TRIGGERED = {
    "suspended": story(submit(suspend=PAUSED), trigger("t1")),
    "matrix": story(submit(suspend=PAUSED, matrix=AXES), trigger("t1")),
    "too long": story(submit(suspend=PAUSED), trigger("x" * 64)),
    "twice": story(submit(suspend=PAUSED), trigger("t1"), trigger("t2")),
    "beside a night": story(submit(), trigger("t1"), edit(suspend=PAUSED), actors=()),
    "before a night": story(submit(suspend=PAUSED), trigger("t1"), edit(suspend=None), later, actors=()),
    "failed": story(submit(suspend=PAUSED, stopAfterFailures=1), trigger("t1"), actors=(end("Failed"),)),
}


@pytest.mark.parametrize("disturbance", DISTURBED)
@pytest.mark.parametrize("name", TRIGGERED)
async def test_a_trigger_survives(name: str, disturbance: str) -> None:
    assert await DISTURBED[disturbance](TRIGGERED[name]) > 1


async def ran_by_hand(name: str) -> Server:
    return (await run(TRIGGERED[name])).server


def by_hand(server: Server) -> list[Obj]:
    """The jobs of triggers: their time has seconds."""
    return [job for job in server.list(FOURNOS_JOB) if TRIGGER_ANNOTATION in job["metadata"]["annotations"]]


async def test_a_suspended_schedule_fires_once_and_moves_no_time() -> None:
    server = await ran_by_hand("suspended")
    (job,) = by_hand(server)
    time = job["metadata"]["annotations"]["fournos.dev/scheduled-at"]
    assert job["metadata"]["annotations"][TRIGGER_ANNOTATION] == "t1"
    assert job["metadata"]["labels"]["fournos.dev/schedule-time"] == "".join(filter(str.isdigit, time))
    assert not time.endswith(":00Z")
    assert job["spec"]["timeouts"] == {"pending": "24h0m0s"}
    found = status(server)
    assert (found["lastTrigger"], found["lastFire"]) == ("t1", {"time": time, "outcome": "Succeeded"})
    assert {"lastScheduleTime", "lastStartTime", "lastSuccessTime", "active"} & found.keys() == set()


async def test_a_trigger_is_all_jobs_of_the_matrix() -> None:
    assert len(by_hand(await ran_by_hand("matrix"))) == 4


async def test_what_is_longer_than_an_id_is_no_trigger() -> None:
    assert jobs(await ran_by_hand("too long")) == {}


async def test_each_trigger_is_a_fire() -> None:
    server = await ran_by_hand("twice")
    assert [job["metadata"]["annotations"][TRIGGER_ANNOTATION] for job in by_hand(server)] == ["t1", "t2"]
    assert len(set(created(server))) == 2


async def test_a_trigger_does_not_wait_for_a_night() -> None:
    server = await ran_by_hand("beside a night")
    assert FIRST in jobs(server) and len(jobs(server)) == 2
    assert len(status(server)["active"]) == 2


async def test_a_fire_by_hand_counts_as_active() -> None:
    server = await ran_by_hand("before a night")
    assert len(by_hand(server)) == len(jobs(server)) == 1
    assert status(server)["missed"]["reason"] == "Overlap"


async def test_a_failure_by_hand_suspends_nothing() -> None:
    found = status(await ran_by_hand("failed"))
    assert found["lastFire"]["outcome"] == "Failed" and "failures" not in found


async def test_a_night_after_it_is_not_held_back() -> None:
    ended = await run(
        replace(TRIGGERED["suspended"], script=(*TRIGGERED["suspended"].script, edit(suspend=None)))
    )
    assert {FIRST, SECOND} & set(jobs(ended.server))
