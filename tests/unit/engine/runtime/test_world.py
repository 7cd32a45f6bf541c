"""The in-memory world finds what it is there to find, and nothing in a system without fault."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.controller import Controller, Watch
from fournos.engine.runtime.decision import Decision
from tests.unit.engine.runtime.toy import THING, TOY, TOY_KEY, make_toy, scenario
from tests.world.harness import (
    Scenario,
    blind_everywhere,
    crash_everywhere,
    fail_everywhere,
    run,
    stale_everywhere,
)


async def test_the_undisturbed_run_finishes() -> None:
    finished = await run(scenario())
    toy = finished.server.get(TOY, TOY_KEY)
    assert toy["status"] == {"phase": "Done", "result": ["toy", "worker"]}
    assert finished.server.list(THING) == []
    assert finished.process.api.writes == [
        "patch toys.test.dev/status ns/toy",  # claimed
        "create things.test.dev ns/toy",
        "patch toys.test.dev/status ns/toy",  # running
        "patch things.test.dev ns/toy",  # held
        "patch toys.test.dev/status ns/toy",  # the result is recorded
        "delete things.test.dev ns/toy",
        "patch toys.test.dev/status ns/toy",  # done
    ]


@pytest.mark.parametrize("eager", [False, True])
async def test_a_sound_system_survives_everything(eager: bool) -> None:
    # 7 writes: after each, and before those that something happened before
    assert await crash_everywhere(scenario(eager=eager)) == 10
    assert await crash_everywhere(scenario(eager=eager), lag=2) == 11
    assert await fail_everywhere(scenario(eager=eager)) == 14
    assert await stale_everywhere(scenario(eager=eager)) >= 12
    assert await blind_everywhere(scenario(eager=eager)) >= 12


async def test_crashes_find_a_result_that_was_let_go_before_it_was_recorded() -> None:
    with pytest.raises(AssertionError, match="ends differently") as found:
        await crash_everywhere(scenario("lets go before it records"))
    assert "in the run: died after write 5" in found.value.__notes__


async def test_crashes_find_state_that_lives_in_the_process() -> None:
    with pytest.raises(AssertionError, match="a Toy has two Things"):
        await crash_everywhere(scenario("remembers"))


async def test_stale_views_find_a_patch_that_overwrites() -> None:
    with pytest.raises(AssertionError, match="ends differently"):
        await stale_everywhere(scenario("overwrites"))


async def test_lost_events_find_trust_in_absence() -> None:
    with pytest.raises(AssertionError, match="ends differently"):
        await blind_everywhere(scenario("trusts absence"))


async def test_failed_writes_find_a_declaration_that_ignores_them() -> None:
    with pytest.raises(AssertionError, match="ends differently"):
        await fail_everywhere(scenario("ignores failures"))


async def test_a_hot_loop_is_found() -> None:
    counting = Controller(
        name="counting",
        watches=(Watch(TOY, lambda obj, caches: [TOY_KEY]),),
        observe=lambda caches, key: caches[TOY].get(key),
        decide=lambda toy, facts, now: Decision(
            status={"passes": (toy.get("status") or {}).get("passes", 0) + 1}
        ),
        primary=lambda toy: toy,
    )
    with pytest.raises(AssertionError, match="not quiet"):
        await run(Scenario(controller=counting, setup=make_toy, max_steps=100))


async def test_a_deadline_runs_the_key_in_virtual_time() -> None:
    timed = Controller(
        name="timed",
        watches=(Watch(TOY, lambda obj, caches: [TOY_KEY]),),
        observe=lambda caches, key: caches[TOY].get(key),
        decide=lambda toy, facts, now: (
            Decision(status={"phase": "Late"})
            if now >= _late(toy)
            else Decision(status={"phase": "Early"}, wake_at=_late(toy))
        ),
        primary=lambda toy: toy,
    )
    finished = await run(Scenario(controller=timed, setup=make_toy))
    assert finished.server.get(TOY, TOY_KEY)["status"] == {"phase": "Late"}
    assert finished.server.clock.seconds == 600


def _late(toy: Obj) -> datetime:
    return datetime.fromisoformat(toy["metadata"]["creationTimestamp"]) + timedelta(minutes=10)
