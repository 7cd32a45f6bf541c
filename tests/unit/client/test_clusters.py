"""A cluster's handle: what is written, when it counts as done, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.client import AsyncClient, DeletedError, FournosError, MissingError, WaitTimeout
from fournos.client.clusters import AsyncCluster
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR
from tests.unit.client.world import Api

KEY = Key("hearth", "c1")


@pytest.fixture
def cluster(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEARTH_NAMESPACE", raising=False)
    meta = {"name": "c1", "namespace": "hearth"}
    api.server.create(FOURNOS_CLUSTER, {"kind": "FournosCluster", "metadata": meta, "spec": {}})
    status(api, gpuSummary="2x L40S", runningJobs=1)


def status(api: Api, **fields: Any) -> None:
    api.server.patch(FOURNOS_CLUSTER, KEY, {"status": fields}, subresource="status")


def spec(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.server.get(FOURNOS_CLUSTER, KEY)["spec"]
    return found


async def started(call: Any) -> asyncio.Task[None]:
    task = asyncio.create_task(call)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_clusters_are_found(
    client: AsyncClient, cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = await client.clusters()
    assert (found.name, found.gpus, found.running_jobs, found.locked) == ("c1", "2x L40S", 1, False)
    assert repr(found) == "<AsyncCluster hearth/c1 Open>"
    assert await client.clusters(namespace="other") == []
    with pytest.raises(MissingError) as refusal:
        await client.cluster("c11")
    assert refusal.value.fix == "did you mean c1?"
    monkeypatch.setenv("HEARTH_NAMESPACE", "other")
    with pytest.raises(MissingError, match="namespace other"):
        await client.cluster("c1")


async def test_a_cluster_that_only_kueue_has_is_named_as_such(client: AsyncClient, api: Api) -> None:
    api.server.create(RESOURCE_FLAVOR, {"metadata": {"name": "c2"}, "spec": {}})
    with pytest.raises(MissingError, match="c2 is a cluster of Kueue's quota alone") as refusal:
        await client.cluster("c2")
    assert "--set lockOnly=true --set cluster=c2" in refusal.value.fix


async def test_a_lock_is_waited_for(client: AsyncClient, api: Api, cluster: None) -> None:
    found = await client.cluster("c1")
    locking = await started(found.lock(ttl="4h", drain="wait"))
    assert spec(api) == {"owner": "perf", "ttl": "4h", "drain": "Wait"}
    status(api, lock={"state": "Requested", "owner": "perf"}, locked=False)
    await asyncio.sleep(0)
    assert not locking.done()
    status(api, lock={"state": "Held", "owner": "perf"}, locked=True)
    await locking
    assert (found.locked, found.owner) == (True, "perf")
    assert repr(found) == "<AsyncCluster hearth/c1 Locked>"
    unlocking = await started(found.unlock())
    assert spec(api) == {"owner": ""}
    status(api, lock=None, locked=False)
    await unlocking
    assert found.owner is None
    assert +api.open == {}


async def test_a_held_lock_has_its_new_end_when_the_operator_has_seen_it(
    client: AsyncClient, api: Api, cluster: None
) -> None:
    """What is printed then is the end of the ttl that was asked for, not of the one before."""
    found = await client.cluster("c1")
    await found.lock(timeout=0)
    generation = api.server.get(FOURNOS_CLUSTER, KEY)["metadata"]["generation"]
    held = {"lock": {"state": "Held", "owner": "perf"}, "locked": True}
    status(api, **held, lockExpiresAt="2030-01-01T01:00:00Z", observedGeneration=generation)
    locking = await started(found.lock(ttl="4h"))
    status(api, lockExpiresAt="2030-01-01T04:00:00Z", observedGeneration=generation + 1)
    await locking
    assert found.raw["status"]["lockExpiresAt"] == "2030-01-01T04:00:00Z"


async def test_what_is_not_held_in_time_stays_asked_for(client: AsyncClient, api: Api, cluster: None) -> None:
    found = await client.cluster("c1")
    with pytest.raises(WaitTimeout, match=r"c1: the lock for perf is not held after 0\.01 s") as over:
        await found.lock(timeout=0.01)
    assert over.value.handle is found
    assert spec(api)["owner"] == "perf"
    await found.lock(timeout=0)  # only asks
    await found.unlock(timeout=0)


async def test_what_is_refused(client: AsyncClient, api: Api, cluster: None) -> None:
    found = await client.cluster("c1")
    await found.lock(owner="ann", timeout=0)
    before = len(api.writes)
    for options, text in (
        ({}, "c1 is locked for ann"),
        ({"owner": "ann", "ttl": "1w"}, "1w"),
        ({"owner": "ann", "drain": "slowly"}, "slowly is not a way to drain"),
    ):
        with pytest.raises(FournosError, match=text):
            await found.lock(**options)
    async with AsyncClient(api=api, owner="") as client:
        with pytest.raises(FournosError, match="for whom"):
            await (await client.cluster("c1")).lock()
    assert len(api.writes) == before


async def test_of_two_who_lock_at_once_one_is_refused(client: AsyncClient, api: Api, cluster: None) -> None:
    found = await client.cluster("c1")
    patch = api.server.patch

    def overtaken(*arguments: Any, **options: Any) -> dict[str, Any]:
        api.server.patch = patch  # type: ignore[method-assign]
        patch(FOURNOS_CLUSTER, KEY, {"spec": {"owner": "ann"}})
        return patch(*arguments, **options)

    api.server.patch = overtaken  # type: ignore[method-assign]
    with pytest.raises(FournosError, match="locked for ann"):
        await found.lock(timeout=0)
    assert spec(api)["owner"] == "ann"


async def test_draining_and_looking_anew(client: AsyncClient, api: Api, cluster: None) -> None:
    found = await client.cluster("c1")
    draining = await started(found.drain(stop=True))
    assert (spec(api)["drain"], found.draining) == ("Stop", True)
    status(api, conditions=[{"type": "Draining", "status": "True", "reason": "Drained"}])
    await draining
    await found.undrain()
    assert "drain" not in spec(api)
    looking = await started(found.discover())
    asked = api.server.get(FOURNOS_CLUSTER, KEY)["metadata"]["annotations"]["fournos.dev/discover"]
    status(api, discoverRequested=asked, hardware={"lastAttempt": asked})
    await looking


async def test_a_cluster_that_is_made_anew_is_another_one(
    client: AsyncClient, api: Api, cluster: None
) -> None:
    found: AsyncCluster = await client.cluster("c1")
    waiting = await started(found.lock())
    api.server.delete(FOURNOS_CLUSTER, KEY)
    with pytest.raises(DeletedError, match="cluster c1"):
        await waiting
    meta = {"name": "c1", "namespace": "hearth"}
    api.server.create(FOURNOS_CLUSTER, {"kind": "FournosCluster", "metadata": meta, "spec": {}})
    for call in (found.unlock, found.drain, found.undrain, found.discover, found.lock):
        with pytest.raises(DeletedError):
            await call()
    assert spec(api) == {}
