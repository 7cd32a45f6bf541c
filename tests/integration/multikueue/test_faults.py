"""What goes wrong between a manager and its workers, on real API servers with real Kueue."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from bench.fleet import FOO
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CONFIG
from tests.integration.killing import revived
from tests.integration.multikueue.fleet import Fleet, insecure, typed
from tests.integration.multikueue.players import Players
from tests.integration.multikueue.test_dispatch import job, phase, submit, where, workload

can_drop = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("iptables") is None, reason="dropping packets needs root and iptables"
)


@contextmanager
def cut(server: str) -> Iterator[None]:
    """Packets to and from this API server vanish: nothing is refused or closed."""
    found = urlsplit(server)
    there, back = ["-d", str(found.hostname), "--dport"], ["-s", str(found.hostname), "--sport"]
    rules = [
        [chain, "-p", "tcp", *way, str(found.port), "-j", "DROP"]
        for chain, way in (("OUTPUT", there), ("INPUT", back))
    ]
    added = []
    try:
        for rule in rules:
            subprocess.run(["iptables", "-w", "5", "-I", *rule], check=True)
            added.append(rule)
        yield
    finally:
        for rule in added:
            subprocess.run(["iptables", "-w", "5", "-D", *rule], check=True)


async def runs(fleet: Fleet, name: str) -> str:
    """Waits until it runs, and returns where."""

    async def found() -> str:
        status = ((await job(fleet, name)) or {}).get("status") or {}
        on = await where(fleet, name)
        return on[0] if status.get("phase") == "Running" and len(on) == 1 else ""

    return str(await fleet.until(found, f"{name} does not run"))


async def active_condition(fleet: Fleet, type_: str) -> tuple[str, str]:
    check = await fleet.manager.client.get(ADMISSION_CHECK, Key("", fleet.check))
    found = condition(check, type_) or {}
    return str(found.get("status") or ""), str(found.get("reason") or "")


def server_of(fleet: Fleet, worker: str) -> str:
    content = yaml.safe_load(fleet.workers[worker].cluster.kubeconfig_path.read_text())
    return str(content["clusters"][0]["cluster"]["server"])


async def finishes(fleet: Fleet, submitted: Any) -> None:
    async def found() -> bool:
        return is_true(await workload(fleet, submitted), "Finished")

    await fleet.until(found, "it does not finish")


async def test_evictions_and_restarts(fleet: Fleet) -> None:
    """Evicted by its worker it goes to the other; the operator killed at any moment, it finishes once."""
    fleet.start()
    players = Players(fleet, [FOO])
    async with players.working():
        submitted = await submit(fleet, "a")
        first = await runs(fleet, "a")
        stopped = {"spec": {"stopPolicy": "HoldAndDrain"}}
        site = fleet.workers[first]
        await site.client.patch(CLUSTER_QUEUE, Key("", fleet.namespace), stopped)

        async def moved() -> bool:
            return await where(fleet, "a") == [other(first)] and await phase(fleet.manager, "a") == "Running"

        await fleet.until(moved, "it does not move to the other worker")
        await site.client.patch(CLUSTER_QUEUE, Key("", fleet.namespace), {"spec": {"stopPolicy": "None"}})
        # The manager evicts it: its queue is drained, and goes on.
        await fleet.manager.client.patch(CLUSTER_QUEUE, Key("", fleet.namespace), stopped)

        async def away() -> bool:
            return not await where(fleet, "a")

        await fleet.until(away, "an evicted job stays on its worker")
        assert await phase(fleet.manager, "a") == "Stopped", "the last status comes back"

        async def unclaimed() -> bool:
            return "clusterName" not in (await workload(fleet, submitted))["status"]

        await fleet.until(unclaimed, "an evicted job still names its worker")
        fleet.stop()
        await fleet.manager.client.patch(
            CLUSTER_QUEUE, Key("", fleet.namespace), {"spec": {"stopPolicy": "None"}}
        )
        fleet.start()
        await runs(fleet, "a")
        await fleet.kill()
        players.ends.add("a")
        await asyncio.sleep(0.5)
        fleet.start()
        await finishes(fleet, submitted)
        assert await phase(fleet.manager, "a") == "Succeeded"


def other(worker: str) -> str:
    return "w2" if worker == "w1" else "w1"


@can_drop
async def test_a_cut_line(fleet: Fleet) -> None:
    """A short cut changes nothing; a long one moves the job; what was left behind is stopped on return."""
    fleet.start(workerLostTimeout="10s")
    players = Players(fleet, [FOO])
    async with players.working():
        submitted = await submit(fleet, "a")
        first = await runs(fleet, "a")
        before = await workload(fleet, submitted)
        lost = f"{names.WORKER_CONDITION}{fleet.cluster_name(first)}"
        players.deaf.add(first)
        await asyncio.sleep(0.3)
        with cut(server_of(fleet, first)):
            # One that hangs holds up nobody: the next job is with the other worker in a moment.
            await submit(fleet, "b")

            async def noticed() -> dict[str, bool]:
                own = await workload(fleet, submitted)
                is_lost = (await active_condition(fleet, lost))[0] == "False"
                return {"still admitted": is_true(own, "Admitted")} if is_lost else {}

            found, _ = await asyncio.gather(
                fleet.until(noticed, "the cut is not noticed"), runs_on(fleet, "b", other(first))
            )
            assert found["still admitted"], "a short cut evicts nothing"

            async def moved() -> bool:
                found = await workload(fleet, submitted)
                return bool(found["status"].get("clusterName") == fleet.cluster_name(other(first)))

            await fleet.until(moved, "the job of a lost worker is not given to the other")
        players.deaf.clear()

        async def alone() -> bool:
            return (
                await where(fleet, "a") == [other(first)]
                and (await active_condition(fleet, lost))[0] == "True"
            )

        await fleet.until(alone, "what a lost worker had left is still there")
        assert before["metadata"]["uid"] == (await workload(fleet, submitted))["metadata"]["uid"]


async def runs_on(fleet: Fleet, name: str, worker: str) -> bool:
    async def found() -> bool:
        return await phase(fleet.workers[worker], name) == "Running"

    return bool(await fleet.until(found, f"{name} does not run on {worker}"))


async def test_a_rotated_kubeconfig(fleet: Fleet) -> None:
    """An unusable one is refused with its reason, a good one connects anew; the job goes on."""
    fleet.start()
    players = Players(fleet, [FOO])
    async with players.working():
        submitted = await submit(fleet, "a")
        first = await runs(fleet, "a")
        good = fleet.workers[first].cluster.kubeconfig_path.read_text()
        await fleet.rotate(first, insecure(good))
        condition_ = f"{names.WORKER_CONDITION}{fleet.cluster_name(first)}"

        async def refused() -> bool:
            return await active_condition(fleet, condition_) == ("False", "Unusable")

        await fleet.until(refused, "the kubeconfig is not refused")
        check = await fleet.manager.client.get(ADMISSION_CHECK, Key("", fleet.check))
        assert "insecure-skip-tls-verify" in (condition(check, condition_) or {})["message"]
        players.ends.add("a")
        await fleet.rotate(first, good + "\n")
        await finishes(fleet, submitted)
        assert (await active_condition(fleet, "Active"))[0] == "True"


async def test_orphans_and_foreign_objects(fleet: Fleet) -> None:
    """What a job that was deleted unseen has left goes; what is not ours stays, whatever its name."""
    fleet.start()
    players = Players(fleet, [FOO])
    foreign = typed(FOO, "b", spec={"theirs": True})
    foreign["metadata"]["namespace"] = fleet.namespace
    for site in fleet.workers.values():
        await site.client.create(FOO, foreign)
    async with players.working():
        submitted = await submit(fleet, "a")
        await runs(fleet, "a")
        fleet.stop()
        await fleet.manager.client.delete(FOO, fleet.manager.key("a"))

        async def gone() -> bool:
            return await workload(fleet, submitted) is None

        await fleet.until(gone, "its Workload stays on the manager")
        taken = await submit(fleet, "b")
        fleet.start()

        async def clean() -> bool:
            return not await where(fleet, "a")

        await fleet.until(clean, "the orphan stays")

        async def rejected() -> bool:
            found = await workload(fleet, taken)
            return found is not None and found["spec"].get("active") is False

        await fleet.until(rejected, "a job whose name is taken everywhere is not rejected")
        for site in fleet.workers.values():
            assert (await site.find(FOO, "b"))["spec"] == {"theirs": True}

            async def none(site: Any = site) -> bool:
                return not await site.all(WORKLOAD)

            await fleet.until(none, "a Workload stays on a worker")


async def test_a_worker_restarts(fleet: Fleet) -> None:
    fleet.start()
    players = Players(fleet, [FOO])
    async with players.working():
        submitted = await submit(fleet, "a")
        first = await runs(fleet, "a")
        cluster = fleet.workers[first].cluster
        cluster.stop_component("kube-apiserver")

        async def noticed() -> bool:
            return (await active_condition(fleet, f"{names.WORKER_CONDITION}{fleet.cluster_name(first)}"))[
                0
            ] == "False"

        await fleet.until(noticed, "the outage is not noticed")
        cluster.start_component("kube-apiserver")
        players.ends.add("a")
        await finishes(fleet, submitted)
        await revived(cluster)


async def test_a_worker_leaves_the_config(fleet: Fleet) -> None:
    """Unseen: what runs there is stopped all the same, then runs elsewhere, and nothing is left."""
    fleet.start()
    async with Players(fleet, [FOO]).working():
        submitted = await submit(fleet, "a")
        first = await runs(fleet, "a")
        fleet.stop()
        clusters = {"spec": {"clusters": [fleet.cluster_name(other(first))]}}
        await fleet.manager.client.patch(MULTIKUEUE_CONFIG, Key("", fleet.check), clusters)
        fleet.start()

        async def moved() -> bool:
            running = [name for name, site in fleet.workers.items() if await phase(site, "a") == "Running"]
            assert len(running) <= 1, "it runs twice"
            own = await workload(fleet, submitted)
            return running == [other(first)] and is_true(own, "Admitted")

        await fleet.until(moved, "it does not run on the worker that is left")
        assert await where(fleet, "a") == [other(first)]
        assert not await fleet.workers[first].all(WORKLOAD)

        async def forgotten() -> bool:
            left = f"{names.WORKER_CONDITION}{fleet.cluster_name(first)}"
            return await active_condition(fleet, left) == ("", "")

        await fleet.until(forgotten, "the worker that has left is still looked at")
        await fleet.manager.client.delete(MULTIKUEUE_CONFIG, Key("", fleet.check))
        await asyncio.sleep(3)
        await fleet.manager.client.create(
            MULTIKUEUE_CONFIG, typed(MULTIKUEUE_CONFIG, fleet.check, **clusters)
        )
        assert await phase(fleet.workers[other(first)], "a") == "Running", "a missing config stops nothing"
