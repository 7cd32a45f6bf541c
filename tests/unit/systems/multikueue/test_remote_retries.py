"""When a step on a worker that failed is sent again, and what ends the wait."""

from __future__ import annotations

import asyncio

import pytest

from fournos.engine.kube.errors import ConnectionLostError, InvalidError, KubeError, ServerError
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.steps import Delete, Patch
from fournos.systems.multikueue.remote import create as creation
from tests.unit.systems.multikueue.rig import A, B, Rig, body, rig
from tests.unit.systems.multikueue.workers import FOO

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    "failure",
    [ServerError("etcdserver: timeout", status=500), ConnectionLostError("no answer within 30 s")],
    ids=["an error", "no answer"],
)
async def test_what_failed_waits_longer_each_time_and_is_woken(failure: KubeError) -> None:
    async with rig() as found:
        remote = found.connect("w1")
        await asyncio.sleep(1)  # that it can be used now ends all waiting
        waits = []
        for _ in range(3):
            remote.fails = [failure]
            await found.send("w1", A, creation(WORKLOAD, body("a")))
            await asyncio.sleep(0.001)
            began = asyncio.get_running_loop().time()
            assert found.workers.busy("w1", A) and found.workers.failure("w1", A) is not None
            found.woken.clear()
            while found.workers.busy("w1", A):  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.05)
            waits.append(round(asyncio.get_running_loop().time() - began, 1))
            assert A in found.woken
        assert waits == [0.2, 0.4, 0.8]
        await found.send("w1", A, creation(WORKLOAD, body("a")))
        await asyncio.sleep(0.01)
        assert found.workers.failure("w1", A) is None


@pytest.mark.parametrize("error", [InvalidError("spec.x: no", status=422)])
async def test_what_is_refused_is_not_sent_again_by_itself(error: KubeError) -> None:
    async with rig() as found:
        found.connect("w1").fails = [error]
        await found.send("w1", A, creation(FOO, body("a")))
        await asyncio.sleep(0.01)
        failure = found.workers.failure("w1", A)
        assert failure is not None and failure.permanent and not found.workers.busy("w1", A)


async def test_steps_for_a_worker_that_is_not_connected_wait() -> None:
    async with rig() as found:
        await found.send("nowhere", A, creation(WORKLOAD, body("a")))
        await asyncio.sleep(0.01)
        assert found.workers.busy("nowhere", A)
        found.workers.disconnect("nowhere")
        assert not found.workers.busy("nowhere", A)


async def test_a_deletion_that_is_refused_waits_longer_each_time() -> None:
    """Each wake-up repeats the step: without a delay that would be a hot loop."""
    async with rig() as found:
        remote = found.connect("w1")
        remote.fails = [InvalidError("denied by a webhook")] * 3
        await found.send("w1", A, Delete(FOO, A, "u"))
        await asyncio.sleep(0.05)
        failure = found.workers.failure("w1", A)
        assert failure is not None and "denied" in failure.message
        assert found.workers.busy("w1", A)
        await asyncio.sleep(1)
        assert not found.workers.busy("w1", A) and found.woken.count(A) == 2


async def test_a_worker_that_can_be_used_again_ends_all_waiting() -> None:
    async with rig() as found:
        remote = found.connect("w1")
        await asyncio.sleep(1)
        for _ in range(9):  # the backoff is beyond half a minute now
            remote.fails = [ServerError("down", status=503)]
            await found.send("w1", A, creation(WORKLOAD, body("a")))
            await asyncio.sleep(0.01)
        remote.cluster.failure = ServerError("down", status=503)
        await asyncio.sleep(16)
        assert found.workers.unusable_reason("w1") and found.workers.busy("w1", A)
        remote.cluster.failure = None
        began = asyncio.get_running_loop().time()
        while found.workers.unusable_reason("w1"):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        assert not found.workers.busy("w1", A) and found.woken[-1] == A
        assert asyncio.get_running_loop().time() - began < 20


async def test_a_worker_asks_for_time() -> None:
    async with rig() as found:
        remote = found.connect("w1")
        await asyncio.sleep(1)
        remote.fails = [ServerError("slow down", status=429, retry_after=7)]
        await found.send("w1", A, creation(WORKLOAD, body("a")))
        await asyncio.sleep(6.9)
        assert found.workers.busy("w1", A)
        await asyncio.sleep(0.2)
        assert not found.workers.busy("w1", A)


async def wait_after(found: Rig, key: Key) -> float:
    """For how long a Workload waits after one more failure."""
    found.remotes["w1"].fails = [ServerError("down", status=503)]
    await found.send("w1", key, Patch(FOO, key, {"spec": {}}))
    await asyncio.sleep(0.001)
    began = asyncio.get_running_loop().time()
    while found.workers.busy("w1", key):  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.05)
    return round(asyncio.get_running_loop().time() - began, 1)


async def test_a_success_ends_the_count_of_failures() -> None:
    async with rig() as found:
        found.connect("w1")
        await asyncio.sleep(1)
        assert [await wait_after(found, A) for _ in range(3)] == [0.2, 0.4, 0.8]
        await found.send("w1", A, creation(FOO, body("a")))
        await asyncio.sleep(0.01)
        assert await wait_after(found, A) == 0.2


@pytest.mark.parametrize("meanwhile", [False, True], ids=["afterwards", "while it waits"])
async def test_of_a_removed_workload_no_count_stays(meanwhile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fournos.systems.multikueue.remote._REMEMBERED", 1)
    async with rig() as found:
        remote = found.connect("w1")
        await asyncio.sleep(1)
        assert [await wait_after(found, A) for _ in range(2)] == [0.2, 0.4]
        if meanwhile:
            remote.fails = [ServerError("down", status=503)] * 2
            for key in (A, B):
                await found.send("w1", key, Patch(FOO, key, {"spec": {}}))
            await asyncio.sleep(5)
        else:
            await wait_after(found, B)
        assert found.workers.failure("w1", A) is None
        assert await wait_after(found, A) == 0.2


async def test_a_refusal_for_good_is_known_until_another_takes_its_place() -> None:
    """What succeeds for the same Workload, such as a deletion, does not make the worker take it."""
    async with rig() as found:
        found.connect("w1").fails = [InvalidError("spec.x: no", status=422)]
        await found.send("w1", A, creation(FOO, body("a")))
        await asyncio.sleep(0.01)
        await found.send("w1", A, Delete(FOO, A, "u"))
        await asyncio.sleep(0.01)
        failure = found.workers.failure("w1", A)
        assert failure is not None and failure.permanent and failure.attempt == "1"
