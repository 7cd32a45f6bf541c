"""The table of docs/multikueue.md: workers that lack something, hang, or are away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any, cast

from bench.fleet import FOO, make
from devcluster import Cluster
from fournos.api.kinds import MINICLUSTER
from fournos.app.parts import kinds
from fournos.engine.api.conditions import condition
from fournos.engine.api.crd import crd
from fournos.engine.api.values import parse_time
from fournos.engine.kube.errors import NoSuchResourceError, TransientError
from fournos.engine.kube.resource import CUSTOM_RESOURCE_DEFINITION, Key, Resource
from fournos.engine.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER
from tests.integration.killing import revived
from tests.integration.multikueue.fleet import ROOT, Fleet, Site, typed, unreachable
from tests.integration.multikueue.players import Players, workload_of
from tests.integration.multikueue.test_differences import wins
from tests.integration.multikueue.test_dispatch import submit, workload
from tests.integration.multikueue.test_faults import active_condition, other, runs
from tests.integration.multikueue.test_wrapped import minicluster
from tests.integration.multikueue.test_wrapped import submit as submit_any
from tests.multikueue_configuration import configuration

KUEUES_TIMEOUT, OUR_TIMEOUT = 10, 8
"""Seconds after which jobs of a lost worker are dispatched anew: Kueue's as its configuration sets it."""


# --- without one kind's CRD ----------------------------------------------------------------------------


async def serves(site: Site, resource: Resource) -> bool:
    try:
        await site.all(resource)
    except (NoSuchResourceError, TransientError):
        return False
    return True


@asynccontextmanager
async def without_miniclusters(fleet: Fleet, worker: str) -> AsyncIterator[None]:
    """The worker is new, and lacks the CRD from the first."""
    client, manager = fleet.workers[worker].client, fleet.manager.client
    (definition,) = [crd(one, rules=rules) for one, rules in kinds() if one.resource == MINICLUSTER]
    key, its_key = Key("", definition["metadata"]["name"]), Key("", fleet.cluster_name(worker))

    async def is_gone() -> bool:
        return not await serves(fleet.workers[worker], MINICLUSTER)

    known = await manager.get(MULTIKUEUE_CLUSTER, its_key)
    await manager.delete(MULTIKUEUE_CLUSTER, its_key)
    await client.delete(CUSTOM_RESOURCE_DEFINITION, key)
    try:
        await fleet.until(is_gone, "the CRD stays")
        await manager.create(MULTIKUEUE_CLUSTER, typed(MULTIKUEUE_CLUSTER, its_key.name, spec=known["spec"]))
        yield
    finally:
        await make(client, CUSTOM_RESOURCE_DEFINITION, definition)
        await fleet.until(partial(serves, fleet.workers[worker], MINICLUSTER), "the CRD does not come back")


async def faults(fleet: Fleet, *kinds: str) -> dict[str, str]:
    """What `fournos doctor` finds fault with at this test's workers, with the fix of the last of each."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "KUBECONFIG": str(fleet.manager.cluster.kubeconfig_path),
        "FOURNOS_MULTIKUEUE_CONFIG_FILE": configuration(*kinds),
    }
    words = ["-m", "fournos", "doctor", "-o", "json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await process.communicate()
    found = [one for one in json.loads(answer) if one["level"] == "fault" and one["area"] == "Workers"]
    named = {one["what"].removeprefix("worker ").partition(":")[0]: one["fix"] for one in found}
    return {name: fix for name, fix in named.items() if fleet.namespace in name}


async def test_ours_takes_other_kinds_there(fleet: Fleet) -> None:
    fleet.start()

    async def reported() -> bool:
        return await active_condition(fleet, f"{names.WORKER_CONDITION}{fleet.cluster_name('w2')}") == (
            "True",
            "SomeKinds",
        )

    async with without_miniclusters(fleet, "w2"), Players(fleet, [FOO]).working():
        await fleet.until(reported, "nobody says what w2 lacks")
        assert await faults(fleet, "MiniCluster.v1alpha2.flux-framework.org", "Foo.v1.example.com") == {
            fleet.cluster_name("w2"): "install the CRD that serves MiniCluster.v1alpha2.flux-framework.org"
        }
        await fleet.workers["w1"].stop_policy("Hold")
        submitted = await submit(fleet, "a")
        await wins(fleet, submitted, "w2")
        assert await runs(fleet, "a") == "w2"
        await submit_any(fleet, MINICLUSTER, "b", **minicluster())
        other_kind = await fleet.manager.find(MINICLUSTER, "b")
        queued = workload_of(MINICLUSTER, other_kind)
        await fleet.manager.client.create(WORKLOAD, queued)

        async def only_w1() -> bool:
            found = await fleet.manager.find(WORKLOAD, queued["metadata"]["name"])
            return (found.get("status") or {}).get("nominatedClusterNames") == [fleet.cluster_name("w1")]

        await fleet.until(only_w1, "the MiniCluster is not offered to w1 alone")


# --- one that hangs ------------------------------------------------------------------------------------


@contextmanager
def hanging(cluster: Cluster) -> Iterator[None]:
    """Its API server takes connections, and answers nothing."""
    os.kill(cluster.pid("kube-apiserver"), signal.SIGSTOP)
    try:
        yield
    finally:
        # The nsenter around it stops with it, and wakes it when it goes on itself.
        os.kill(cluster.record.processes["kube-apiserver"].pid, signal.SIGCONT)


async def one_beside(fleet: Fleet, seconds: float) -> bool:
    """Whether a job gets to w2 in the first `seconds` in which w1 hangs."""
    await fleet.connected()
    await submit(fleet, "a")
    await runs(fleet, "a")
    with hanging(fleet.workers["w1"].cluster):
        await submit(fleet, "b")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if await fleet.workers["w2"].find(FOO, "b"):
                return True
            await asyncio.sleep(0.1)
        return False


async def test_ours_does_not_wait(fleet: Fleet) -> None:
    fleet.start()
    async with Players(fleet, [FOO]).working():
        assert await one_beside(fleet, 30)


# --- one that is away ----------------------------------------------------------------------------------


async def given_up(fleet: Fleet, submitted: Any) -> datetime:
    """When it was evicted on the manager."""

    async def found() -> datetime | None:
        shown = condition(await workload(fleet, submitted), "Evicted") or {}
        return parse_time(shown["lastTransitionTime"]) if shown.get("status") == "True" else None

    return cast(datetime, await fleet.until(found, "it is never given up"))


async def restart(fleet: Fleet, site: Site) -> None:
    """Its API server; and its Kueue, which would look again only after a while."""
    await revived(site.cluster)
    await fleet.until(partial(serves, site, FOO), "its API server does not come back")
    site.cluster.stop_component("kueue")
    await revived(site.cluster)


async def test_ours_counts_from_the_loss(fleet: Fleet) -> None:
    """Over a restart, too, and though no worker is left."""
    fleet.start(workerLostTimeout=f"{OUR_TIMEOUT}s")
    async with Players(fleet, [FOO]).working():
        submitted = await submit(fleet, "a")
        first = await runs(fleet, "a")
        await asyncio.sleep(OUR_TIMEOUT)
        kubeconfigs = {name: site.cluster.kubeconfig_path.read_text() for name, site in fleet.workers.items()}
        for name, kubeconfig in kubeconfigs.items():
            await fleet.rotate(name, unreachable(kubeconfig))
        lost = f"{names.WORKER_CONDITION}{fleet.cluster_name(first)}"

        async def noticed() -> bool:
            return (await active_condition(fleet, lost))[0] == "False"

        await fleet.until(noticed, "the loss is not noticed")
        began = await since(fleet, lost)
        fleet.stop()
        fleet.start(workerLostTimeout=f"{OUR_TIMEOUT}s")
        assert (await given_up(fleet, submitted) - began).total_seconds() >= OUR_TIMEOUT
        assert await since(fleet, lost) == began, "a restart does not reset the clock"
        await fleet.rotate(other(first), kubeconfigs[other(first)] + "\n")
        await wins(fleet, submitted, other(first))


async def since(fleet: Fleet, type_: str) -> datetime:
    found = await fleet.manager.client.get(ADMISSION_CHECK, Key("", fleet.check))
    return parse_time((condition(found, type_) or {})["lastTransitionTime"])
