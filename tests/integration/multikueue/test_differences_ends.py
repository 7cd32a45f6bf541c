"""The table of docs/multikueue.md: evicted here, what comes back, when it is over, which kinds."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.fleet import FOO
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import EVENT, JOB
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from tests.integration.multikueue.fleet import Fleet, typed
from tests.integration.multikueue.players import Players, report_status
from tests.integration.multikueue.test_dispatch import job, submit, where, workload
from tests.integration.multikueue.test_faults import runs

AUDITED = "example.com/Audited"


# --- status --------------------------------------------------------------------------------------------


async def changes(fleet: Fleet, *, rounds: int, pause: float = 0) -> tuple[bool, list[float]]:
    """Whether the manager's own condition outlives the worker's updates, and the seconds of each."""
    await submit(fleet, "a")
    on = fleet.workers[await runs(fleet, "a")]
    audited = {"type": AUDITED, "status": "True", "reason": "Seen", "message": ""}
    await report_status(fleet.manager, FOO, "a", conditions=[audited])
    took = []
    for number in range(rounds):
        await asyncio.sleep(pause)
        began = time.monotonic()
        await report_status(on, FOO, "a", round=number)

        async def reported(number: int = number) -> bool:
            return bool((await job(fleet, "a"))["status"].get("round") == number)

        await fleet.until(reported, "the worker's status does not come")
        took.append(time.monotonic() - began)
    return is_true(await job(fleet, "a"), AUDITED), took


async def test_ours_mirrors_at_once_and_keeps_the_managers_fields(fleet: Fleet) -> None:
    fleet.start()
    async with Players(fleet, [FOO]).working():
        stays, took = await changes(fleet, rounds=15)
    assert stays and min(took) < 0.7, took


# --- when it is over -----------------------------------------------------------------------------------


async def ends(fleet: Fleet, players: Players) -> None:
    """Runs one to its end."""
    submitted = await submit(fleet, "a")
    await runs(fleet, "a")
    players.ends.add("a")

    async def finished() -> Any:
        found = await workload(fleet, submitted)
        return condition(found, "Finished")

    await fleet.until(finished, "it does not finish")


async def deletes(fleet: Fleet) -> None:
    players = Players(fleet, [FOO])
    async with players.working():
        await ends(fleet, players)

        async def gone() -> bool:
            return not await where(fleet, "a")

        await fleet.until(gone, "the copy stays")


async def test_ours_deletes_what_has_finished(fleet: Fleet) -> None:
    fleet.start()
    await deletes(fleet)


# --- which kinds ---------------------------------------------------------------------------------------


async def submit_job(fleet: Fleet) -> None:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    body = typed(JOB, "a", spec={"suspend": True, "managedBy": names.MULTIKUEUE, "template": template})
    body["metadata"] |= {"namespace": fleet.namespace, "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    await fleet.manager.client.create(JOB, body)


async def test_ours_leaves_jobs_to_kueue(fleet: Fleet) -> None:
    fleet.start()
    await submit_job(fleet)

    async def refused() -> bool:
        (one,) = await fleet.manager.all(WORKLOAD) or [{"spec": {}}]
        return one["spec"].get("active") is False

    await fleet.until(refused, "it is not refused")

    async def reported() -> bool:
        notes = [str(one.get("note")) for one in await fleet.manager.all(EVENT)]
        return any("No multikueue adapter found for owner kind batch/v1, Kind=Job" in one for one in notes)

    await fleet.until(reported, "nobody says why")
    assert not any([await site.all(JOB) for site in fleet.workers.values()])
