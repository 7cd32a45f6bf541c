"""The table of docs/multikueue.md, line by line: what our adapter does otherwise than Kueue's own."""

from __future__ import annotations

from typing import Any

from bench.fleet import FOO
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import CONFIG_MAP, Key, uid_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, WORKLOAD
from tests.integration.multikueue.fleet import Fleet, Site, typed
from tests.integration.multikueue.players import Players, foo, workload_name
from tests.integration.multikueue.test_dispatch import phase, submit, workload
from tests.integration.multikueue.test_faults import runs

FINALIZER = "example.com/not-here"


async def twin(site: Site, submitted: Any) -> Any:
    return await site.find(WORKLOAD, workload_name(FOO, submitted))


async def winner(fleet: Fleet, submitted: Any) -> str:
    found = await workload(fleet, submitted)
    return str(((found or {}).get("status") or {}).get("clusterName") or "").removeprefix(
        f"{fleet.namespace}-"
    )


async def wins(fleet: Fleet, submitted: Any, worker: str) -> None:
    async def won() -> bool:
        return await winner(fleet, submitted) == worker

    await fleet.until(won, f"{worker} does not win")


# --- who wins ------------------------------------------------------------------------------------------


async def w1_reserves_only(fleet: Fleet) -> Any:
    """A job that has quota on w1, but lacks an AdmissionCheck there; w2 is held."""
    await fleet.workers["w2"].stop_policy("Hold")
    site = fleet.workers["w1"]
    check = typed(ADMISSION_CHECK, fleet.check, spec={"controllerName": "example.com/nobody"})
    await site.client.create(ADMISSION_CHECK, check)
    now = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Active", "message": ""}
    conditions = [{"type": "Active", "status": "True", **now}]
    key = Key("", fleet.check)
    await site.client.patch(
        ADMISSION_CHECK, key, {"status": {"conditions": conditions}}, subresource="status"
    )
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": fleet.check}]}}
    await site.client.patch(CLUSTER_QUEUE, Key("", fleet.namespace), {"spec": strategy})

    async def needs() -> bool:
        queue = await site.client.get(CLUSTER_QUEUE, Key("", fleet.namespace))
        return is_true(queue, "Active")

    await fleet.until(needs, "the queue of w1 is not active")
    submitted = await submit(fleet, "a")

    async def reserved() -> bool:
        found = await twin(site, submitted) or {}
        return is_true(found, "QuotaReserved")

    await fleet.until(reserved, "w1 reserves no quota")
    assert not is_true(await twin(site, submitted), "Admitted")
    return submitted


async def remove_check(fleet: Fleet) -> None:
    client = fleet.workers["w1"].client
    await client.patch(CLUSTER_QUEUE, Key("", fleet.namespace), {"spec": {"admissionChecksStrategy": None}})
    await client.delete(ADMISSION_CHECK, Key("", fleet.check))


async def the_first_that_admits(fleet: Fleet) -> None:
    async with Players(fleet, [FOO]).working():
        submitted = await w1_reserves_only(fleet)
        assert await winner(fleet, submitted) == ""
        await fleet.workers["w2"].stop_policy("None")
        await wins(fleet, submitted, "w2")
        await remove_check(fleet)


async def test_ours_takes_the_first_that_admits(fleet: Fleet) -> None:
    fleet.start()
    await the_first_that_admits(fleet)


# --- what travels --------------------------------------------------------------------------------------


async def owned(fleet: Fleet) -> Any:
    """A job with an owner and a finalizer of the manager's."""
    body = typed(CONFIG_MAP, "owner", spec={})
    body.pop("spec")
    body["metadata"]["namespace"] = fleet.namespace
    owner = await fleet.manager.client.create(CONFIG_MAP, body)
    job = foo("a")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner)}
    job["metadata"] |= {
        "namespace": fleet.namespace,
        "finalizers": [FINALIZER],
        "ownerReferences": [reference],
        "annotations": {"example.com/note": "travels"},
    }
    return await fleet.manager.client.create(FOO, job)


async def copied(fleet: Fleet) -> Any:
    async def there() -> Any:
        found = [await site.find(FOO, "a") for site in fleet.workers.values()]
        return next(filter(None, found), None)

    return (await fleet.until(there, "no copy"))["metadata"]


async def labels_and_annotations_travel(fleet: Fleet) -> None:
    async with Players(fleet, [FOO]).working():
        await owned(fleet)
        copy = await copied(fleet)
        assert "finalizers" not in copy and "ownerReferences" not in copy
        assert copy["annotations"]["example.com/note"] == "travels"
        await runs(fleet, "a")


async def test_ours_copies_labels_and_annotations(fleet: Fleet) -> None:
    fleet.start()
    await labels_and_annotations_travel(fleet)


# --- evicted by its worker -----------------------------------------------------------------------------


# --- an object of that name that somebody else made ----------------------------------------------------


async def foreign(fleet: Fleet) -> Any:
    """On w1; w2 is held."""
    await fleet.workers["w2"].stop_policy("Hold")
    others = typed(FOO, "b", spec={"theirs": True})
    others["metadata"]["namespace"] = fleet.namespace
    await fleet.workers["w1"].client.create(FOO, others)
    return await submit(fleet, "b")


async def test_ours_asks_another_worker(fleet: Fleet) -> None:
    fleet.start()
    async with Players(fleet, [FOO]).working():
        submitted = await foreign(fleet)

        async def refused() -> bool:
            found = ((await workload(fleet, submitted)) or {}).get("status") or {}
            return found.get("nominatedClusterNames") == [fleet.cluster_name("w2")]

        await fleet.until(refused, "w1 is not left out")
        await fleet.workers["w2"].stop_policy("None")
        await wins(fleet, submitted, "w2")

        async def running() -> bool:
            return await phase(fleet.manager, "b") == "Running"

        await fleet.until(running, "it does not run")
        assert (await fleet.workers["w1"].find(FOO, "b"))["spec"] == {"theirs": True}
