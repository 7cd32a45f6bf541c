"""Schedules in the in-memory world: each story also runs through every crash, stale view, lost event and
failed write, and must end alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE, PIPELINE
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Key
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
AXES = {"params.model": ["a", "b"], "hardware.gpuCount": [1, 2]}


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
        lags=fields.pop("lags", (1, 2, 3, 5, 8)),
        **fields,
    )


def foreign(server: Server) -> None:
    server.create(FOURNOS_JOB, {"metadata": {"name": f"{FIRST}-1", "namespace": NS}, "spec": {}})
    server.patch(FOURNOS_JOB, Key(NS, f"{FIRST}-1"), {"status": {"phase": "Running"}}, subresource="status")


def delete_first(server: Server) -> None:
    if FIRST in jobs(server):
        server.delete(FOURNOS_JOB, Key(NS, FIRST))


def pipeline(digit: str) -> Callable[[Server], None]:
    return lambda server: _create(server, digit)


def _create(server: Server, digit: str) -> None:
    image = f"registry.example/engine@sha256:{digit * 64}"
    server.create(
        PIPELINE,
        {
            "metadata": {
                "name": "fournos-full",
                "namespace": NS,
                "annotations": {"fournos.dev/resolve-image": image},
            },
            "spec": {"tasks": [{"name": "run", "taskSpec": {"steps": [{"name": "run", "image": image}]}}]},
        },
    )


def newer(server: Server) -> None:
    server.delete(PIPELINE, Key(NS, "fournos-full"))
    _create(server, "2")


NIGHTLY = story(submit(), later, PAUSE)
MATRIX = story(submit(matrix=AXES), PAUSE)
STORIES = {
    "nightly": NIGHTLY,
    "matrix": MATRIX,
    "a foreign job has a name": story(submit(matrix=AXES), PAUSE, setup=foreign),
    "forbid": story(submit(), later, PAUSE, actors=()),
    "queue": story(
        submit(concurrencyPolicy="Queue", startingDeadlineSeconds=23 * 3600),
        later,
        end("Succeeded"),
        PAUSE,
        actors=(),
    ),
    "replace": story(submit(concurrencyPolicy="Replace"), later, PAUSE, actors=(stop,)),
    "allow": story(submit(concurrencyPolicy="Allow"), later, PAUSE, actors=()),
    "failures": story(submit(stopAfterFailures=2), later, later, actors=(end("Failed"),)),
    "deleted in its period": story(submit(), delete_first, later, PAUSE, actors=()),
    "limits": story(submit(historyLimits={"succeeded": 1}), later, later, PAUSE),
    "unchanged": story(submit(skipUnchanged={"of": "Params"}), later, PAUSE),
    "the same images": story(
        submit(skipUnchanged={"of": "ImageDigests"}), later, PAUSE, setup=pipeline("1"), lags=(1, 2)
    ),
    "another image": story(
        submit(skipUnchanged={"of": "ImageDigests"}), newer, later, PAUSE, setup=pipeline("1"), lags=(1, 2)
    ),
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


async def test_queue_waits_for_the_one_before_it() -> None:
    server = await ran("queue")
    assert jobs(server) == {FIRST: "Succeeded", SECOND: ""}
    assert "missed" not in status(server)


async def test_replace_stops_the_older_jobs() -> None:
    assert jobs(await ran("replace")) == {FIRST: "Stopped", SECOND: ""}


async def test_allow_runs_side_by_side() -> None:
    server = await ran("allow")
    assert jobs(server) == {FIRST: "", SECOND: ""} and len(status(server)["active"]) == 2


async def test_failures_in_a_row_suspend_the_schedule_and_a_person_goes_on() -> None:
    server = await ran("failures")
    assert list(jobs(server)) == [FIRST, SECOND]
    reason = server.get(FOURNOS_SCHEDULE, KEY)["spec"]["suspend"]["reason"]
    assert reason == f"2 fires in a row failed, the last one: failed: {SECOND}"
    resumed = await run(
        replace(STORIES["failures"], script=(*STORIES["failures"].script, edit(suspend=None), PAUSE))
    )
    assert len(jobs(resumed.server)) == 3 and status(resumed.server)["failures"] == 1


async def test_a_job_that_was_deleted_in_its_period_is_not_created_again() -> None:
    server = await ran("deleted in its period")
    assert created(server) == [FIRST, SECOND]


async def test_limits_keep_the_newest() -> None:
    assert list(jobs(await ran("limits"))) == [SECOND, THIRD]


async def test_unchanged_params_are_skipped_and_counted() -> None:
    server = await ran("unchanged")
    assert list(jobs(server)) == [FIRST] and status(server)["missed"]["reason"] == "Unchanged"


async def test_the_same_images_are_skipped_and_a_new_one_runs() -> None:
    same = await ran("the same images")
    assert list(jobs(same)) == [FIRST] and status(same)["missed"]["reason"] == "Unchanged"
    other = await ran("another image")
    assert list(jobs(other)) == [FIRST, SECOND] and "missed" not in status(other)


async def test_a_deleted_schedule_leaves_what_runs() -> None:
    server = await ran("deleted schedule")
    assert jobs(server) == {FIRST: ""} and not server.list(FOURNOS_SCHEDULE)
