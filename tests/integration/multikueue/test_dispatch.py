"""Jobs of an invented kind on two real workers, by Kueue's own adapter and by ours."""

from __future__ import annotations

from typing import Any

from bench.fleet import FOO
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from tests.integration.multikueue.fleet import Fleet, Site
from tests.integration.multikueue.players import Players, foo, workload_name


async def submit(fleet: Fleet, name: str, **spec: Any) -> Any:
    body = foo(name, **spec)
    body["metadata"]["namespace"] = fleet.namespace
    return await fleet.manager.client.create(FOO, body)


async def job(fleet: Fleet, name: str) -> Any:
    return await fleet.manager.find(FOO, name)


async def phase(site: Site, name: str) -> str | None:
    found = await site.find(FOO, name)
    return ((found or {}).get("status") or {}).get("phase")


async def workload(fleet: Fleet, submitted: Any) -> Any:
    return await fleet.manager.find(WORKLOAD, workload_name(FOO, submitted))


async def where(fleet: Fleet, name: str) -> list[str]:
    return [worker for worker, site in fleet.workers.items() if await site.find(FOO, name)]


async def test_kueues_own_adapter(built_in: Fleet) -> None:
    players = Players(built_in, [FOO])
    async with players.working():
        submitted = await submit(built_in, "a")

        async def runs() -> bool:
            return await phase(built_in.manager, "a") == "Running"

        await built_in.until(runs, "no status came back")
        on = await where(built_in, "a")
        assert len(on) == 1
        copy = await built_in.workers[on[0]].find(FOO, "a")
        assert (
            "managedBy" not in copy["spec"] and copy["metadata"]["labels"][names.ORIGIN_LABEL] == "multikueue"
        )
        players.ends.add("a")

        async def finished() -> bool:
            return is_true(await workload(built_in, submitted), "Finished")

        await built_in.until(finished, "it does not finish")
        assert await phase(built_in.manager, "a") == "Succeeded"


async def test_ours(fleet: Fleet) -> None:
    fleet.start()
    players = Players(fleet, [FOO])
    async with players.working():
        submitted = await submit(fleet, "a")

        async def runs() -> bool:
            return await phase(fleet.manager, "a") == "Running"

        await fleet.until(runs, "no status came back")
        on = await where(fleet, "a")
        assert len(on) == 1
        own = await workload(fleet, submitted)

        async def admitted() -> bool:
            return is_true(await workload(fleet, submitted), "Admitted")

        await fleet.until(admitted, "not admitted here")
        own = await workload(fleet, submitted)
        assert own["status"]["clusterName"] == fleet.cluster_name(on[0])
        assert not own["status"].get("nominatedClusterNames")
        players.ends.add("a")

        async def finished() -> bool:
            return is_true(await workload(fleet, submitted), "Finished")

        await fleet.until(finished, "it does not finish")
        own = await workload(fleet, submitted)
        ended = condition(own, "Finished") or {}
        assert (ended["reason"], ended["message"]) == ("Succeeded", "all done")
        assert await phase(fleet.manager, "a") == "Succeeded"

        async def clean() -> bool:
            return not await where(fleet, "a") and not any(
                [await site.all(WORKLOAD) for site in fleet.workers.values()]
            )

        await fleet.until(clean, "something is left on a worker")
