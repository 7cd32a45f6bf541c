"""Triggers: a fire by hand, once for each, that counts as active and moves no time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.fournosschedule import MAX_TRIGGER
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.decision import Facts, Present, User, UserAccess
from fournos.engine.runtime.webhook.types import Request
from fournos.systems.schedules.author import review, stored
from fournos.systems.schedules.names import AUTHOR_ANNOTATION, TRIGGER_ANNOTATION
from fournos.systems.schedules.trigger import Trigger, parsed
from tests.unit.systems.schedules.actors import KEY, NS, created, edit, end, jobs, schedule, status, submit
from tests.unit.systems.schedules.test_lifecycle import AXES, FIRST, SECOND, later, story
from tests.world.harness import DISTURBED, run
from tests.world.server import Server

PAUSED: Any = {"reason": "new GPUs"}


def trigger(name: str, **changes: Any) -> Callable[[Server], None]:
    text = Trigger(name, {path.replace("__", "."): value for path, value in changes.items()}).text()

    def act(server: Server) -> None:
        server.patch(FOURNOS_SCHEDULE, KEY, {"metadata": {"annotations": {TRIGGER_ANNOTATION: text}}})

    return act


STORIES = {
    "suspended": story(submit(suspend=PAUSED), trigger("t1")),
    "changed": story(submit(suspend=PAUSED, matrix=AXES), trigger("t1", params__model="z")),
    "twice": story(submit(suspend=PAUSED), trigger("t1"), trigger("t2")),
    "beside a night": story(submit(), trigger("t1"), edit(suspend=PAUSED), actors=()),
    "before a night": story(submit(suspend=PAUSED), trigger("t1"), edit(suspend=None), later, actors=()),
    "failed": story(submit(suspend=PAUSED, stopAfterFailures=1), trigger("t1"), actors=(end("Failed"),)),
}


@pytest.mark.parametrize("disturbance", DISTURBED)
@pytest.mark.parametrize("name", STORIES)
async def test_it_survives(name: str, disturbance: str) -> None:
    assert await DISTURBED[disturbance](STORIES[name]) > 1


async def ran(name: str) -> Server:
    return (await run(STORIES[name])).server


def by_hand(server: Server) -> list[Obj]:
    """The jobs of triggers: their time has seconds."""
    return [job for job in server.list(FOURNOS_JOB) if TRIGGER_ANNOTATION in job["metadata"]["annotations"]]


async def test_a_suspended_schedule_fires_once_and_moves_no_time() -> None:
    server = await ran("suspended")
    (job,) = by_hand(server)
    time = job["metadata"]["annotations"]["fournos.dev/scheduled-at"]
    assert job["metadata"]["annotations"][TRIGGER_ANNOTATION] == "t1"
    assert job["metadata"]["labels"]["fournos.dev/schedule-time"] == "".join(filter(str.isdigit, time))
    assert not time.endswith(":00Z")
    assert job["spec"]["timeouts"] == {"pending": "24h0m0s"}
    found = status(server)
    assert (found["lastTrigger"], found["lastFire"]) == ("t1", {"time": time, "outcome": "Succeeded"})
    assert {"lastScheduleTime", "lastStartTime", "lastSuccessTime", "active"} & found.keys() == set()


async def test_a_changed_field_is_no_axis_any_more() -> None:
    server = await ran("changed")
    made = [job["spec"] for job in by_hand(server)]
    assert [(spec["params"]["model"], spec["hardware"]["gpuCount"]) for spec in made] == [("z", 1), ("z", 2)]
    template = server.get(FOURNOS_SCHEDULE, KEY)["spec"]["jobTemplate"]["spec"]
    assert template["params"] == {"model": "a"}, "only this fire was changed"


async def test_each_trigger_is_a_fire() -> None:
    server = await ran("twice")
    assert [job["metadata"]["annotations"][TRIGGER_ANNOTATION] for job in by_hand(server)] == ["t1", "t2"]
    assert len(set(created(server))) == 2


async def test_a_trigger_does_not_wait_for_a_night() -> None:
    server = await ran("beside a night")
    assert FIRST in jobs(server) and len(jobs(server)) == 2
    assert len(status(server)["active"]) == 2


async def test_a_fire_by_hand_counts_as_active() -> None:
    server = await ran("before a night")
    assert len(by_hand(server)) == len(jobs(server)) == 1
    assert status(server)["missed"]["reason"] == "Overlap"


async def test_a_failure_by_hand_suspends_nothing() -> None:
    found = status(await ran("failed"))
    assert found["lastFire"]["outcome"] == "Failed" and "failures" not in found


async def test_a_night_after_it_is_not_held_back() -> None:
    ended = await run(
        replace(STORIES["suspended"], script=(*STORIES["suspended"].script, edit(suspend=None)))
    )
    assert {FIRST, SECOND} & set(jobs(ended.server))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "now",
        "[]",
        "{}",
        json.dumps({"id": "x" * 64}),
        json.dumps({"id": "x", "set": ["params.a"]}),
        json.dumps({"id": "x", "set": {"params..a": 1}}),
        json.dumps({"id": "x", "set": {"params.a": "y" * MAX_TRIGGER}}),
    ],
)
def test_what_is_no_trigger(text: str | None) -> None:
    assert parsed(text) is None


def test_a_trigger_is_read_as_it_was_written() -> None:
    written = Trigger("x", {"params.model": "ü", "priority": None})
    assert parsed(written.text()) == written


async def test_a_trigger_changes_the_spec_of_jobs_and_no_metadata() -> None:
    """Labels and annotations can carry rights."""
    path = {"metadata__labels__kueue": "x", "labels": {"kueue": "x"}}
    (job,) = by_hand((await run(story(submit(suspend=PAUSED), trigger("t1", **path)))).server)
    assert {"kueue", "labels"} & job["metadata"]["labels"].keys() == set()
    assert job["spec"]["metadata"] == {"labels": {"kueue": "x"}}, "the API server drops what it does not know"


ANN, BOB = User("ann"), User("bob")


def reviewed(user: User, *, allowed: bool, **annotations: str) -> Any:
    """Returns the review of a write that changes these annotations of ann's schedule."""
    old = schedule(annotations={AUTHOR_ANNOTATION: stored(ANN)})
    new = schedule(annotations={AUTHOR_ANNOTATION: stored(ANN), **annotations})
    request = Request("UPDATE", user, Key(NS, "nightly"), new, old)
    return review(request, Facts({UserAccess(user, "create", FOURNOS_JOB, NS): Present(allowed)}))


def test_who_triggers_needs_the_right_and_does_not_become_the_author() -> None:
    asked = {TRIGGER_ANNOTATION: Trigger("t1").text()}
    assert reviewed(BOB, allowed=True, **asked).problems == ()
    assert reviewed(BOB, allowed=True, **asked).patch == {}
    (problem,) = reviewed(BOB, allowed=False, **asked).problems
    assert "bob may not create FournosJobs" in problem.message
    assert reviewed(BOB, allowed=False, team="perf").problems == ()
