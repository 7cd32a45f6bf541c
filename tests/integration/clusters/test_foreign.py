"""Workloads without a FournosJob, with real Kueue: they count, are reported, and stay unchanged."""

from __future__ import annotations

from pathlib import Path

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR, WORKLOAD
from tests.integration.clusters.conftest import SLOT, ClusterStage
from tests.integration.clusters.test_hub import workload_of


async def test_they_are_waited_for_and_who_waits_is_admitted_when_a_drain_ends(
    hub: ClusterStage, gpu_node: str, kubeconfig: Path
) -> None:
    name = f"{hub.name}-a"
    hub.start()
    await hub.add(name, kubeconfig)

    async def slots(wanted: int) -> bool:
        return (await hub.quotas()).get(name, {}).get(SLOT) == wanted

    await hub.until(lambda: slots(100), "the cluster takes no jobs")
    first, late = Key(hub.name, "first"), Key(hub.name, "late")

    async def admitted(key: Key) -> bool:
        return is_true(await hub.client.get(WORKLOAD, key), "Admitted")

    async def message(type_: str) -> str:
        return str((condition(await hub.cluster(name), type_) or {}).get("message"))

    # The lock of a drained cluster waits behind one, and says so; who comes later is kept out.
    await hub.client.create(WORKLOAD, workload_of(first, name))
    await hub.until(lambda: admitted(first), "the first is not admitted")
    await hub.edit(name, owner="ann", drain="Wait")

    async def behind() -> bool:
        found = (await hub.status(name)).get("lock") or {}
        return found.get("state") == "Requested" and found.get("behind") == ["workload/first"]

    await hub.until(behind, "the lock does not say what it waits for")
    await hub.until(lambda: slots(0), "a drained cluster in use has slots")
    await hub.client.create(WORKLOAD, workload_of(late, name))

    async def kept_out() -> bool:
        found = condition(await hub.client.get(WORKLOAD, late), "QuotaReserved") or {}
        return "fournos.dev/unavailable" in found.get("message", "")

    await hub.until(kept_out, "a drained cluster takes jobs")

    # The drain ends while the lock is only requested: whoever waited gets in at once, the lock does not.
    await hub.edit(name, drain=None)
    await hub.until(lambda: admitted(late), "who waited is not looked at when the draining ends")
    assert not (await hub.status(name)).get("locked") and await admitted(first)
    await hub.edit(name, owner="")
    await hub.client.delete(WORKLOAD, late)

    # A deleted cluster waits for it, says for whom, and does not touch it, not even to stop.
    await hub.edit(name, drain="Stop")
    await hub.client.delete(FOURNOS_CLUSTER, Key(hub.name, name))

    async def named() -> bool:
        return (await message("Draining")).endswith("end or delete them: first")

    await hub.until(named, "the one that it waits for is not named")
    await hub.until(lambda: slots(0), "a deleted cluster in use has slots")
    assert await admitted(first)
    await hub.client.get(RESOURCE_FLAVOR, Key("", name))
    await hub.client.delete(WORKLOAD, first)
    await hub.until(lambda: hub.gone(name), "the cluster is not decommissioned")
    try:
        await hub.client.get(RESOURCE_FLAVOR, Key("", name))
    except NotFoundError:
        pass
    else:
        raise AssertionError("its flavor is left")
