"""The hand-over of an ended job to the history: what TTL deletion waits for, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Key, key_of
from fournos.engine.runtime.decision import Facts
from fournos.systems.jobs.finish import derive_archived
from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import Context, StatusDraft
from tests.unit.systems.jobs.actors import NS, TEMPLATE, Kueue, Resolver, Tekton, environment, job, submit
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server, VirtualClock

KEY = Key(NS, "job")
TTL = 1800.0


def recorder(*, after: float) -> Callable[[Server], None]:
    """Archives ended jobs so many seconds of the world after their end."""

    def act(server: Server) -> None:
        for found in server.list(FOURNOS_JOB):
            status = found.get("status") or {}
            ended = (status.get("phaseTimes") or {}).get("finished")
            if ended and "archivedAt" not in status and server.clock.monotonic() >= after:
                body = {"status": {"archivedAt": format_time(server.clock.now())}}
                server.patch(FOURNOS_JOB, key_of(found), body, subresource="status")

    return act


def scenario(*actors: Callable[[Server], None], enabled: bool = True, **kwargs: Any) -> Scenario:
    def begin(server: Server) -> None:
        environment(server)
        submit(server, ttl="30m")

    settings = JobSettings(namespace=NS, history_enabled=enabled)
    return Scenario(
        jobs_controller(settings, TEMPLATE), begin, actors, cast=(Resolver, Kueue, Tekton), **kwargs
    )


async def test_without_a_history_nothing_changes() -> None:
    """The default: no condition, no wait, and no write more than before."""
    assert JobSettings(namespace=NS).history_enabled is False
    kept = await run(scenario(enabled=False, horizon=TTL - 100))
    assert condition(job(kept.server), "Archived") is None
    gone = await run(scenario(enabled=False, horizon=TTL + 100))
    assert gone.server.find(FOURNOS_JOB, KEY) is None


async def test_an_archived_job_is_deleted_at_its_ttl() -> None:
    waiting = await run(scenario(recorder(after=0), horizon=TTL - 100))
    assert (condition(job(waiting.server), "Archived") or {})["reason"] == "Pending"
    gone = await run(scenario(recorder(after=0), horizon=TTL + 100))
    assert gone.server.find(FOURNOS_JOB, KEY) is None
    assert len(gone.process.api.writes) == len(waiting.process.api.writes) + 1, "no write but the deletion"


async def test_a_job_that_is_not_archived_is_deleted_at_the_deadline_and_shows_it() -> None:
    assert JobSettings(namespace=NS).archive_deadline_sec == 600
    done = await run(scenario(horizon=TTL + 700))
    assert done.server.find(FOURNOS_JOB, KEY) is None
    assert TTL + 600 <= done.server.clock.monotonic() < TTL + 610
    last = [one.object for one in done.server.history if one.resource == FOURNOS_JOB][-1]
    found = condition(last, "Archived") or {}
    assert (found["status"], found["reason"]) == ("False", "DeadlineExceeded")
    assert "600 s" in found["message"]


async def test_a_late_archive_ends_the_wait_at_once() -> None:
    late = recorder(after=TTL + 300)

    def knock(server: Server) -> None:
        server.clock.advance(max(0.0, TTL + 300 - server.clock.monotonic()))

    done = await run(scenario(late, script=[knock], horizon=TTL + 100))
    assert done.server.find(FOURNOS_JOB, KEY) is None
    assert TTL + 300 <= done.server.clock.monotonic() < TTL + 600


@pytest.mark.parametrize("how", DISTURBED)
@pytest.mark.parametrize("actors", [(), (recorder(after=0),)], ids=["never archived", "archived"])
async def test_every_disturbance_ends_alike(how: str, actors: tuple[Any, ...]) -> None:
    assert await DISTURBED[how](scenario(*actors, horizon=TTL + 4000)) > 0


def test_a_phase_that_is_entered_anew_is_not_archived() -> None:
    status = {"phase": "Failed", "archivedAt": "2030-01-01T00:00:00Z"}
    draft = StatusDraft({"metadata": {"name": "job"}, "status": status}, VirtualClock().now())
    assert "archivedAt" in draft.enter("Failed", "again").render()
    assert "archivedAt" not in draft.enter("Running", "a forged end was corrected").render()


async def test_an_archived_job_has_the_condition_in_its_next_write() -> None:
    kept = await run(scenario(recorder(after=0), horizon=TTL - 100))
    observed = kept.scenario.controller.observe(kept.process.caches, KEY)
    assert observed is not None
    settings = JobSettings(namespace=NS, history_enabled=True)
    ctx = Context(observed, Facts(), kept.server.clock.now(), settings, TEMPLATE)
    derive_archived(ctx)
    assert ctx.draft.is_true("Archived")
