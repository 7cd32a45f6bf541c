"""The life of a cluster with real Kueue and the job system, and fifty of them at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from fournos.api.fournoscluster import DEFINITION
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.schema_readers import schema_violations
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import ConflictError, InvalidError, NotFoundError
from fournos.engine.kube.resource import SECRET, Key, uid_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.systems.clusters.rules import RULES
from tests.integration.clusters.conftest import SLOT, ClusterStage, set_gpus_of_node
from tests.unit.systems.clusters.actors import CREATIONS


async def test_rules(client: Client, crds: None, namespace: str) -> None:
    messages = {rule.id: rule.message for rule in RULES}
    for rule, bad, good in CREATIONS:

        def placed(obj: Any) -> Any:
            return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}

        with pytest.raises(InvalidError) as refused:
            await client.create(FOURNOS_CLUSTER, placed(bad), dry_run=True)
        assert messages[rule] in refused.value.message
        assert not schema_violations(DEFINITION, good)
        await client.create(FOURNOS_CLUSTER, placed(good), dry_run=True)


async def test_the_life_of_a_cluster(hub: ClusterStage, gpu_node: str, kubeconfig: Path) -> None:
    name = f"{hub.name}-a"
    hub.start()
    await hub.add(name, kubeconfig, label=False)
    labels = {"metadata": {"labels": {"fournos.dev/cluster-kubeconfig": "true"}}}
    await hub.client.patch(SECRET, Key(hub.secrets, f"kubeconfig-{name}"), labels)

    # Found, probed, counted, queued.
    async def ready() -> bool:
        status = await hub.status(name)
        wanted = ("KubeconfigValid", "Reachable", "GPUDiscovered", "QuotaSynced")
        return all(is_true({"status": status}, type_) for type_ in wanted)

    await hub.until(ready, "the cluster is not ready")
    status = await hub.status(name)
    assert status["kubeconfigStatus"] == "Valid" and status["gpuSummary"] == "2x NVIDIA-L40S"
    assert status["connection"]["version"].startswith("v1.") and status["connection"]["certificateExpires"]
    assert (await hub.quotas())[name] == {SLOT: 100, "fournos/gpu-l40s": 2}
    queue = await hub.client.get(CLUSTER_QUEUE, Key("", hub.name))
    assert is_true(queue, "Active")

    # A change of a node is seen at once.
    await set_gpus_of_node(hub.client, gpu_node, 4)

    async def four() -> bool:
        return (await hub.quotas())[name]["fournos/gpu-l40s"] == 4

    await hub.until(four, "more GPUs are not seen")

    # Locked by the job system and Kueue, and a foreign Workload waits.
    await hub.edit(name, owner="your-name", ttl="1h")

    async def locked() -> bool:
        return bool((await hub.status(name)).get("locked"))

    await hub.until(locked, "the lock is not held")
    lock = Key(hub.name, f"cluster-lock-{name}")
    job = await hub.client.get(FOURNOS_JOB, lock)
    assert job["status"]["phase"] == "Admitted" and job["status"]["cluster"] == name
    assert (await hub.client.get(WORKLOAD, lock))["spec"]["priority"] == 1_000_000_000
    blocked = Key(hub.name, "test-blocked-job")
    await hub.client.create(WORKLOAD, workload_of(blocked, name))

    async def has_reason() -> bool:
        found = condition(await hub.client.get(WORKLOAD, blocked), "QuotaReserved") or {}
        return f"insufficient unused quota for {SLOT} in flavor {name}" in found.get("message", "")

    await hub.until(has_reason, "the blocked Workload does not say why")

    # A restart changes nothing about the lock.
    before, held = await hub.status(name), await hub.client.get(FOURNOS_JOB, lock)
    hub.stop()
    hub.start()
    await acts(hub, name, gpu_node, 5)
    after = await hub.status(name)
    assert uid_of(await hub.client.get(FOURNOS_JOB, lock)) == uid_of(held)
    assert {k: after[k] for k in ("ownerSetAt", "lockExpiresAt", "locked")} == {
        k: before[k] for k in ("ownerSetAt", "lockExpiresAt", "locked")
    }

    # Unlocked: the foreign Workload gets in and stays.
    await hub.edit(name, owner="")

    async def admitted() -> bool:
        return is_true(await hub.client.get(WORKLOAD, blocked), "Admitted")

    await hub.until(admitted, "the blocked Workload is not admitted after the unlock")
    with pytest.raises(NotFoundError):
        await hub.client.get(FOURNOS_JOB, lock)
    await hub.client.delete(WORKLOAD, blocked)

    # Draining: nothing new gets in, not even with free slots, and Kueue says why.
    await hub.edit(name, drain="Wait")

    async def drained() -> bool:
        return (await hub.quotas())[name][SLOT] == 0

    await hub.until(drained, "no slots are taken away")
    late = Key(hub.name, "late")
    await hub.client.create(WORKLOAD, workload_of(late, name))

    async def kept_out() -> bool:
        found = condition(await hub.client.get(WORKLOAD, late), "QuotaReserved") or {}
        return "fournos.dev/unavailable" in found.get("message", "")

    await hub.until(kept_out, "a drained cluster takes jobs")
    await hub.edit(name, drain=None)

    async def let_in() -> bool:
        return is_true(await hub.client.get(WORKLOAD, late), "Admitted")

    await hub.until(let_in, "who waited is not admitted when the draining ends")
    await hub.client.delete(WORKLOAD, late)

    # Deleted: everything goes, and it stays away.
    await hub.client.delete(FOURNOS_CLUSTER, Key(hub.name, name))
    await hub.until(lambda: hub.gone(name), "the cluster is not decommissioned")
    with pytest.raises(NotFoundError):
        await hub.client.get(RESOURCE_FLAVOR, Key("", name))
    assert await hub.quotas() == {}
    later = f"{hub.name}-b"
    await hub.add(later, kubeconfig)
    await acts(hub, later, gpu_node, 6)
    assert await hub.gone(name) and name not in await hub.quotas()
    assert b"client-key-data" not in hub.log.read_bytes()


async def test_locks_preempt_nothing_and_are_not_preempted(
    hub: ClusterStage, gpu_node: str, kubeconfig: Path
) -> None:
    name = f"{hub.name}-a"
    hub.start()
    await hub.add(name, kubeconfig)

    async def slots(wanted: int) -> bool:
        return (await hub.quotas()).get(name, {}).get(SLOT) == wanted

    await hub.until(lambda: slots(100), "the cluster takes no jobs")

    async def admitted(key: Key) -> bool:
        return is_true(await hub.client.get(WORKLOAD, key), "Admitted")

    async def refused(key: Key, why: str) -> bool:
        found = condition(await hub.client.get(WORKLOAD, key), "QuotaReserved") or {}
        return why in found.get("message", "")

    # Whoever runs, however unimportant, is not pushed out by a lock that is requested.
    humble, mighty = Key(hub.name, "humble"), Key(hub.name, "mighty")
    await hub.client.create(WORKLOAD, workload_of(humble, name, priority=-10))
    await hub.until(lambda: admitted(humble), "the first is not admitted")
    await hub.edit(name, owner="ann")
    lock = Key(hub.name, f"cluster-lock-{name}")

    async def waits() -> bool:
        try:
            found = condition(await hub.client.get(WORKLOAD, lock), "QuotaReserved") or {}
        except NotFoundError:
            return False
        return found.get("status") == "False"

    await hub.until(waits, "the lock is not queued")
    # Kueue goes on to whoever comes after the lock; the operator looks at the cluster, too.
    second = Key(hub.name, "second")
    await hub.client.create(WORKLOAD, workload_of(second, name, priority=-10))
    await hub.until(lambda: admitted(second), "the next is not admitted")
    await hub.client.delete(WORKLOAD, second)
    await acts(hub, name, gpu_node, 3)
    assert await admitted(humble) and await slots(100), "nothing but its priority keeps the lock back"
    await hub.edit(name, drain="Wait")
    await hub.until(lambda: slots(0), "a drained cluster has slots")
    # Draining keeps newcomers out, however important, so that the lock comes next.
    await hub.client.create(WORKLOAD, workload_of(mighty, name, priority=1000))
    await hub.until(
        lambda: refused(mighty, "fournos.dev/unavailable"), "Kueue has not looked at the newcomer"
    )
    await acts(hub, name, gpu_node, 4)
    assert await admitted(humble) and not await admitted(mighty)
    assert not (await hub.status(name)).get("locked")
    await hub.client.delete(WORKLOAD, humble)

    async def locked() -> bool:
        return bool((await hub.status(name)).get("locked"))

    await hub.until(locked, "the lock is not held when the last has ended")
    # A held lock stays, whoever comes; without the draining nothing but its priority protects it.
    await hub.edit(name, drain=None)
    short = f"insufficient unused quota for {SLOT} in flavor {name}"
    await hub.until(lambda: refused(mighty, short), "the newcomer is not looked at again")
    await acts(hub, name, gpu_node, 5)
    assert await locked() and await admitted(lock) and not await admitted(mighty)
    await hub.edit(name, owner="")
    await hub.until(lambda: admitted(mighty), "who waited is not admitted after the unlock")
    await hub.client.delete(WORKLOAD, mighty)


async def test_fifty_at_once_while_another_client_edits_the_queue(
    hub: ClusterStage, gpu_node: str, kubeconfig: Path
) -> None:
    names = [f"{hub.name}-{number:02}" for number in range(50)]
    for name in names:
        await hub.add(name, kubeconfig)
    hub.start(enable="clusters")
    began = time.monotonic()

    async def others() -> float:
        """Another writer's fifty edits, each of one annotation with the version that it read. Its seconds."""
        for number in range(50):
            while True:
                queue = await hub.client.get(CLUSTER_QUEUE, Key("", hub.name))
                version = queue["metadata"]["resourceVersion"]
                note = {"resourceVersion": version, "annotations": {f"test/edit-{number}": "kept"}}
                try:
                    await hub.client.patch(CLUSTER_QUEUE, Key("", hub.name), {"metadata": note})
                    break
                except ConflictError:
                    continue
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    editing = asyncio.create_task(others())

    async def complete() -> bool:
        found = await hub.quotas()
        return found == {name: {SLOT: 100, "fournos/gpu-l40s": 2} for name in names}

    await hub.until(complete, "not all quotas are right")
    took = time.monotonic() - began
    its_time = await editing
    assert await complete(), "the other's edits were answered with lost quotas"
    queue = await hub.client.get(CLUSTER_QUEUE, Key("", hub.name))
    kept = [name for name in queue["metadata"]["annotations"] if name.startswith("test/edit-")]
    assert len(kept) == 50, "edits of the other writer were lost"
    print(f"50 clusters discovered in {took:.1f} s, 50 edits in {its_time:.1f} s")
    assert took < 6 * its_time


async def acts(hub: ClusterStage, cluster: str, node: str, gpus: int) -> None:
    """Returns when the operator has acted on the cluster: on a change of its node that is made now."""
    await set_gpus_of_node(hub.client, node, gpus)

    async def counted() -> bool:
        return (await hub.quotas()).get(cluster, {}).get("fournos/gpu-l40s") == gpus

    await hub.until(counted, f"the operator does not act on {cluster}")


def content_of(kubeconfig: Path) -> str:
    return kubeconfig.read_text()


def workload_of(key: Key, cluster: str, *, priority: int = 0) -> dict[str, Any]:
    container = {
        "name": "placeholder",
        "image": "registry.k8s.io/pause:3.9",
        "resources": {"requests": {SLOT: "1"}},
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "nodeSelector": {"fournos.dev/cluster": cluster},
    }
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": "Workload",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {"kueue.x-k8s.io/queue-name": "fournos-queue"},
        },
        "spec": {
            "active": True,
            "queueName": "fournos-queue",
            "priority": priority,
            "podSets": [{"name": "launcher", "count": 1, "template": {"spec": pod}}],
        },
    }
