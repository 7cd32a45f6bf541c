"""Steps on workers: one that hangs delays no other, what failed is tried again, what is refused is shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fournos.engine.kube.errors import (
    ConflictError,
    ConnectionLostError,
    InvalidError,
    KubeError,
    ServerError,
)
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import Delete, Patch
from fournos.systems.multikueue.remote import Read, RemoteStep
from fournos.systems.multikueue.remote import create as creation
from tests.fakes.clusters import kubeconfig
from tests.unit.systems.multikueue.rig import NS, PASS, A, B, Rig, body, connected, rig
from tests.unit.systems.multikueue.workers import FOO

pytestmark = pytest.mark.looptime


async def test_what_is_made_is_seen_before_its_event() -> None:
    async with connected() as (found, _):
        await found.send("w1", A, creation(WORKLOAD, body("a")))
        assert found.workers.busy("w1", A) and not found.workers.busy("w1", B)
        await asyncio.sleep(0.01)
        assert not found.workers.busy("w1", A)
        assert found.in_store("w1", WORKLOAD, A) is not None and A in found.woken


async def test_a_worker_that_hangs_blocks_no_other() -> None:
    async with connected() as (found, remote):
        remote.hangs = True
        found.connect("w2")
        for number in range(50):
            await found.send("w1", Key(NS, f"h{number}"), creation(WORKLOAD, body(f"h{number}")))
        await found.sent("w2", A, creation(WORKLOAD, body("a")))
        assert found.in_store("w2", WORKLOAD, A) is not None
        assert found.workers.busy("w1", Key(NS, "h0")), "asked once only"


async def test_a_name_that_is_taken() -> None:
    """Created with a lost answer: adopted.  Of an earlier attempt: wait.  Of another owner: reported."""
    async with connected() as (found, remote):
        remote.server.create(WORKLOAD, body("a"))
        remote.server.create(WORKLOAD, body("b", attempt="0"))
        remote.server.create(WORKLOAD, body("c", origin="another"))
        remote.server.create(WORKLOAD, body("d", worker="w0"))
        for name in "abcd":
            await found.sent("w1", Key(NS, name), creation(WORKLOAD, body(name)))
        assert found.workers.failure("w1", A) is None and found.in_store("w1", WORKLOAD, A) is not None
        waits, foreign = found.workers.failure("w1", B), found.workers.failure("w1", Key(NS, "c"))
        assert waits is not None and not waits.permanent and found.workers.busy("w1", B)
        renamed = found.workers.failure("w1", Key(NS, "d"))
        assert renamed is not None and "of another worker's name" in renamed.message
        assert (
            foreign is not None
            and foreign.permanent
            and foreign.error == "ForeignObject"
            and foreign.attempt == "1"
        )
        assert "was not made by this manager" in foreign.message


async def test_steps_for_one_workload_keep_their_order_and_stop_at_a_failure() -> None:
    async with connected() as (found, remote):
        remote.fails = [ConflictError("stale", status=409)]
        await found.send("w1", A, Patch(WORKLOAD, A, {"spec": {"active": False}}))
        await found.sent("w1", A, creation(WORKLOAD, body("a")))
        assert remote.server.find(WORKLOAD, A) is None


async def test_a_deletion_is_sent_once() -> None:
    async with connected() as (found, remote):
        uid = remote.server.create(WORKLOAD, body("a"))["metadata"]["uid"]
        await found.sent("w1", A, Delete(WORKLOAD, A, uid))
        assert found.workers.deleted("w1", uid) and remote.server.find(WORKLOAD, A) is None
        await asyncio.sleep(61)
        assert not found.workers.deleted("w1", uid)


async def test_a_read_is_answered_even_if_nothing_is_there() -> None:
    async with connected() as (found, remote):
        remote.server.create(FOO, body("a"))
        await found.send("w1", A, Read(FOO, A, "7"))
        await found.sent("w1", B, Read(FOO, B, "8"))
        assert (found.workers.last_read("w1", A), found.workers.last_read("w1", B)) == ("7", "8")
        assert found.in_store("w1", FOO, A) is not None and found.in_store("w1", FOO, B) is None


async def test_a_refused_kubeconfig_is_reported_and_closes_the_connection() -> None:
    async with connected() as (found, _):
        bad = kubeconfig("https://w1.example.com").replace(b"token: t", b"tokenFile: /etc/token")
        with pytest.raises(KubeError):
            found.workers.connect("w1", bad, version="2")
        assert found.workers.probed("w1") and "tokenFile" in found.workers.unusable_reason("w1")
        assert found.workers.refused("w1") == "2" and found.workers.version_of("w1") is None
        assert found.changed[-1] == "w1"
        found.workers.connect("w1", kubeconfig("https://w1.example.com"), version="3")
        assert found.workers.refused("w1") is None and not found.workers.probed("w1")


async def test_a_worker_can_be_used_when_its_watches_are_up_and_reports_what_it_lacks() -> None:
    async with connected() as (found, remote):
        remote.server.unserved.add(FOO)
        assert not found.workers.probed("w1")
        await asyncio.sleep(1)
        assert found.workers.probed("w1") and found.workers.unusable_reason("w1") == ""
        assert "does not serve foos.example.com" in found.workers.unusable_reason("w1", FOO)
        assert "w1" in found.changed


@pytest.mark.parametrize(
    "answer", [{}, [], None, 7, {"metadata": {"name": "a"}}, "other", "unlabelled", "raises"]
)
async def test_an_answer_that_is_none_is_a_failure_and_tried_again(answer: Any) -> None:
    async with connected() as (found, remote):
        good, tries = remote.create, []

        async def create(resource: Resource, obj: Obj, *, dry_run: bool = False) -> Any:
            tries.append(asyncio.get_running_loop().time())
            if len(tries) > 2:
                return await good(resource, obj)
            if answer == "raises":
                raise ValueError("what is this?")
            meta = {**obj["metadata"], "uid": "u", "resourceVersion": "1"}
            if answer == "other":
                return {**obj, "metadata": {**meta, "name": "b"}}
            if answer == "unlabelled":
                return {**obj, "metadata": {**meta, "labels": {}}}
            return answer

        remote.create = create  # type: ignore[method-assign]
        for count in (1, 2, 3):
            await found.sent("w1", A, creation(FOO, body("a")))
            assert len(tries) == count and A in found.woken
            failure = found.workers.failure("w1", A)
            if count < 3:
                assert failure is not None and not failure.permanent and found.workers.busy("w1", A)
            else:
                assert failure is None and not found.workers.busy("w1", A)
            await asyncio.sleep(5)


@pytest.mark.parametrize("step", [Patch(FOO, A, {"spec": {}}), Read(FOO, A, "7")])
async def test_other_answers_are_looked_at_as_well(step: RemoteStep) -> None:
    async with connected() as (found, remote):

        async def nothing(*_: Any, **__: Any) -> Any:
            return {}

        remote.patch = remote.get = nothing  # type: ignore[method-assign]
        failure = await found.sent("w1", A, step)
        assert failure is not None and failure.error == "ConnectionLostError"
        assert found.workers.last_read("w1", A) == ""


async def test_what_is_remembered_of_workloads_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fournos.systems.multikueue.remote._REMEMBERED", 10)
    async with connected() as (found, remote):
        for n in range(40):
            await found.send("w1", Key(NS, f"wl{n}"), Read(FOO, Key(NS, f"wl{n}"), "1"))
        await asyncio.sleep(1)
        assert sum(bool(found.workers.last_read("w1", Key(NS, f"wl{n}"))) for n in range(40)) == 10
        remote.fails = [ServerError("down", status=503)] * 40
        for n in range(40):
            await found.send("w1", Key(NS, f"wl{n}"), Delete(FOO, Key(NS, f"wl{n}"), "u"))
        await asyncio.sleep(0.1)
        assert sum(found.workers.failure("w1", Key(NS, f"wl{n}")) is not None for n in range(40)) == 10


async def test_a_deletion_is_not_sent_again_before_its_event() -> None:
    async with connected() as (found, remote):
        uid = remote.server.create(WORKLOAD, body("a"))["metadata"]["uid"]
        sent: list[Key] = []
        good = remote.delete

        async def delete(resource: Resource, key: Key, **options: Any) -> None:
            sent.append(key)
            await good(resource, key, **options)

        remote.delete = delete  # type: ignore[method-assign]
        for _ in range(3):
            await found.sent("w1", A, Delete(WORKLOAD, A, uid))
        assert sent == [A]


async def test_a_disconnected_worker_leaves_no_task() -> None:
    async with connected() as (found, remote):
        await found.sent("w1", A, creation(WORKLOAD, body("a")))
        assert any(task.get_name() == "worker w1" for task in asyncio.all_tasks())
        remote.hangs = True
        await found.send("w1", B, creation(WORKLOAD, body("b")))
        found.workers.disconnect("w1")
        await asyncio.sleep(0.01)
        at_work = [task for task in asyncio.all_tasks() if task.get_name() == "worker w1"]
        assert len(at_work) <= 1, "only what is under way"
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "worker w1"]


async def test_steps_are_not_part_of_the_pass_that_sends_them() -> None:
    """A pass wakes not its own key, and its log lines carry its object: neither is for other Workloads."""
    seen: list[str] = []
    async with connected() as (found, remote):

        async def gate() -> None:
            seen.append(PASS.get(""))

        remote.gate = gate
        PASS.set("a pass")
        await found.sent("w1", A, creation(WORKLOAD, body("a")))
    assert seen == [""]


async def test_an_object_of_another_origin_is_not_kept() -> None:
    """No watch of ours would ever take it out of the store again."""
    async with connected() as (found, remote):
        await asyncio.sleep(1)
        remote.server.create(FOO, body("a", origin="another"))
        await found.sent("w1", A, Read(FOO, A, "7"))
        assert found.workers.last_read("w1", A) == "7" and found.in_store("w1", FOO, A) is None


async def test_a_name_whose_object_is_being_deleted_is_waited_for() -> None:
    async with connected() as (found, remote):
        held = body("a")
        held["metadata"] = {**held["metadata"], "finalizers": ["example.com/held"]}
        uid = remote.server.create(FOO, held)["metadata"]["uid"]
        await remote.delete(FOO, A, uid=uid)
        failure = await found.sent("w1", A, creation(FOO, body("a")))
        assert failure is not None and not failure.permanent and found.workers.busy("w1", A)


# --- when a step on a worker that failed is sent again, and what ends the wait ---------------------------


@pytest.mark.parametrize(
    "failure",
    [ServerError("etcdserver: timeout", status=500), ConnectionLostError("no answer within 30 s")],
    ids=["an error", "no answer"],
)
async def test_what_failed_waits_longer_each_time_and_is_woken(failure: KubeError) -> None:
    async with connected() as (found, remote):
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
        await found.sent("w1", A, creation(WORKLOAD, body("a")))
        assert found.workers.failure("w1", A) is None


@pytest.mark.parametrize("error", [InvalidError("spec.x: no", status=422)])
async def test_what_is_refused_is_not_sent_again_by_itself(error: KubeError) -> None:
    async with connected() as (found, remote):
        remote.fails = [error]
        failure = await found.sent("w1", A, creation(FOO, body("a")))
        assert failure is not None and failure.permanent and not found.workers.busy("w1", A)


async def test_steps_for_a_worker_that_is_not_connected_wait() -> None:
    async with rig() as found:
        await found.sent("nowhere", A, creation(WORKLOAD, body("a")))
        assert found.workers.busy("nowhere", A)
        found.workers.disconnect("nowhere")
        assert not found.workers.busy("nowhere", A)


async def test_a_deletion_that_is_refused_waits_longer_each_time() -> None:
    """Each wake-up repeats the step: without a delay that would be a hot loop."""
    async with connected() as (found, remote):
        remote.fails = [InvalidError("denied by a webhook")] * 3
        await found.send("w1", A, Delete(FOO, A, "u"))
        await asyncio.sleep(0.05)
        failure = found.workers.failure("w1", A)
        assert failure is not None and "denied" in failure.message
        assert found.workers.busy("w1", A)
        await asyncio.sleep(1)
        assert not found.workers.busy("w1", A) and found.woken.count(A) == 2


async def test_a_worker_that_can_be_used_again_ends_all_waiting() -> None:
    async with connected() as (found, remote):
        await asyncio.sleep(1)
        for _ in range(9):  # the backoff is beyond half a minute now
            remote.fails = [ServerError("down", status=503)]
            await found.sent("w1", A, creation(WORKLOAD, body("a")))
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
    async with connected() as (found, remote):
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
    async with connected() as (found, _):
        await asyncio.sleep(1)
        assert [await wait_after(found, A) for _ in range(3)] == [0.2, 0.4, 0.8]
        await found.sent("w1", A, creation(FOO, body("a")))
        assert await wait_after(found, A) == 0.2


@pytest.mark.parametrize("meanwhile", [False, True], ids=["afterwards", "while it waits"])
async def test_of_a_removed_workload_no_count_stays(meanwhile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fournos.systems.multikueue.remote._REMEMBERED", 1)
    async with connected() as (found, remote):
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
    async with connected() as (found, remote):
        remote.fails = [InvalidError("spec.x: no", status=422)]
        await found.sent("w1", A, creation(FOO, body("a")))
        failure = await found.sent("w1", A, Delete(FOO, A, "u"))
        assert failure is not None and failure.permanent and failure.attempt == "1"


async def test_a_worker_holds_what_is_there_and_what_is_on_its_way() -> None:
    async with connected() as (found, remote):
        await asyncio.sleep(1)
        assert not found.workers.holds("w1") and not found.workers.holds("unknown")
        remote.hangs = True
        await found.send("w1", A, creation(WORKLOAD, body("a")))
        assert found.workers.holds("w1"), "its creation may succeed"
        remote.hangs = False
