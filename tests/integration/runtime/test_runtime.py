"""The runtime on a real API server: what the in-memory world cannot vouch for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import ConflictError, NotFoundError, NotLeaderError
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    EVENT,
    LEASE,
    SECRET,
    Key,
    Obj,
    Resource,
    key_of,
    owner_uids,
    uid_of,
)
from fournos.engine.kube.store import Store
from fournos.engine.runtime.act import NameWait, StepExecutor
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.engine.runtime.decision import (
    CopySecret,
    Create,
    Decision,
    Delete,
    EventRecord,
    Patch,
    StepFailure,
)
from fournos.engine.runtime.events import Recorder
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.process import run
from tests.integration.conftest import Server, install
from tests.waiting import LIMIT, until

TOY = Resource("test.fournos.dev", "v1", "Toy", "toys")
TOY_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "toys.test.fournos.dev"},
    "spec": {
        "group": "test.fournos.dev",
        "scope": "Namespaced",
        "names": {"kind": "Toy", "plural": "toys"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {
                                "type": "object",
                                "properties": {
                                    "phase": {"type": "string"},
                                    "by": {"type": "string"},
                                    "list": {"type": "array", "items": {"type": "string"}},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client(load(kubeconfig, None)) as client:
        yield client


@pytest.fixture
async def toy(server: Server, api: Client, namespace: str) -> Obj:
    await install(server, TOY_CRD)
    return await make_toy(api, namespace, "toy")


async def make_toy(api: Client, namespace: str, name: str) -> Obj:
    metadata = {"namespace": namespace, "name": name}
    return await api.create(
        TOY, {"apiVersion": TOY.api_version, "kind": "Toy", "metadata": metadata, "spec": {}}
    )


def child(toy: Obj, **metadata: Any) -> dict[str, Any]:
    owner = {"apiVersion": TOY.api_version, "kind": "Toy", "name": toy["metadata"]["name"]}
    owner |= {"uid": uid_of(toy), "controller": True, "blockOwnerDeletion": False}
    namespace = toy["metadata"]["namespace"]
    metadata = {"namespace": namespace, "name": "child", "ownerReferences": [owner]} | metadata
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


# --- steps -----------------------------------------------------------------------------------------------


async def test_steps_on_a_real_api_server(api: Client, toy: Obj) -> None:
    namespace = toy["metadata"]["namespace"]
    caches = Caches({TOY: Store(), CONFIG_MAP: Store(indexes={"owner": owner_uids})})
    executor = StepExecutor(api)

    async def step(*steps: Any) -> Any:
        return (await executor.act(steps, caches)).stopped

    assert await step(Create(CONFIG_MAP, child(toy))) is None
    assert len(caches[CONFIG_MAP].by("owner", uid_of(toy))) == 1
    assert await step(Create(CONFIG_MAP, child(toy))) is None  # adopted
    made = await api.get(CONFIG_MAP, Key(namespace, "child"))
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"b": "2"}}
    with pytest.raises(ConflictError):
        await step(Patch(CONFIG_MAP, key_of(made), stale))
    assert await step(Patch(CONFIG_MAP, key_of(made), {"data": {"b": "2"}})) is None
    # a name that is taken
    await api.create(CONFIG_MAP, child(toy, name="foreign", ownerReferences=[]))
    foreign = await step(Create(CONFIG_MAP, child(toy, name="foreign")))
    assert isinstance(foreign, StepFailure)
    assert foreign.error == "ForeignObject"
    await api.create(CONFIG_MAP, child(toy, name="slow", finalizers=["test.fournos.dev/slow"]))
    await api.delete(CONFIG_MAP, Key(namespace, "slow"))
    assert isinstance(await step(Create(CONFIG_MAP, child(toy, name="slow"))), NameWait)
    await api.patch(CONFIG_MAP, Key(namespace, "slow"), {"metadata": {"finalizers": None}})
    # Its owner does not exist, so the garbage collector may be as fast as this test: the finalizer keeps it.
    predecessor = child(toy, name="old", finalizers=["test.fournos.dev/old"])
    predecessor["metadata"]["ownerReferences"][0]["uid"] = "00000000-0000-0000-0000-000000000000"
    await api.create(CONFIG_MAP, predecessor)
    assert isinstance(await step(Create(CONFIG_MAP, child(toy, name="old"))), NameWait)
    await api.patch(CONFIG_MAP, Key(namespace, "old"), {"metadata": {"finalizers": None}})
    # deletion
    assert await step(Delete(CONFIG_MAP, key_of(made), "00000000-0000-0000-0000-000000000000")) is None
    assert await api.get(CONFIG_MAP, key_of(made))
    assert await step(Delete(CONFIG_MAP, key_of(made), uid_of(made))) is None
    assert await step(Delete(CONFIG_MAP, key_of(made), uid_of(made))) is None
    with pytest.raises(NotFoundError):
        await api.get(CONFIG_MAP, key_of(made))


async def test_a_secret_s_copy_follows_its_source(api: Client, toy: Obj) -> None:
    namespace = toy["metadata"]["namespace"]
    source = Key(namespace, "source")
    metadata = {"namespace": namespace, "name": "source"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "test.fournos.dev/x"}
    await api.create(SECRET, body | {"data": {"a": "MQ==", "b": "Mg=="}})
    step = CopySecret(source, child(toy, name="copy")["metadata"])
    executor = StepExecutor(api)
    assert (await executor.act([step], Caches({}))).stopped is None
    await api.patch(SECRET, source, {"data": {"a": None, "b": "Mw=="}})
    assert (await executor.act([step], Caches({}))).stopped is None
    copy = await api.get(SECRET, Key(namespace, "copy"))
    assert (copy["type"], copy["data"]) == ("test.fournos.dev/x", {"b": "Mw=="})


# --- events, lease -----------------------------------------------------------------------------------------


async def test_events_are_accepted_and_counted(
    api: Client, toy: Obj, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fournos.engine.runtime.events.SERIES_PAUSE", 0.0)
    metrics = Metrics()
    recorder = Recorder(api, SystemClock(), metrics, instance="test_1")
    sending = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.record(TOY, toy, EventRecord("Warning", "Odd", "odd"))
        await recorder.flush()
    sending.cancel()
    (event,) = (await api.list(EVENT, namespace=toy["metadata"]["namespace"])).items
    assert event["series"]["count"] == 3
    assert event["regarding"]["uid"] == uid_of(toy)
    assert metrics.value("fournos_events_sent_total") == 3


async def test_a_lease_is_taken_held_released_and_taken_over(api: Client, namespace: str) -> None:
    clock, key = SystemClock(), Key(namespace, "fournos")
    one = Lease(api, key, "one", clock, duration=7, renew_deadline=6, interval=0.5)
    two = Lease(api, key, "two", clock, duration=7, renew_deadline=6, interval=0.5)
    await one.acquire()
    holding = asyncio.create_task(one.hold())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(two.acquire(), 8)
    one.check()
    holding.cancel()
    await asyncio.wait([holding])
    await one.release()
    await asyncio.wait_for(two.acquire(), 6)  # before it would expire
    with pytest.raises(NotLeaderError):
        one.check()
    spec = (await api.get(LEASE, key))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)
    await asyncio.wait_for(one.acquire(), LIMIT)  # `two` stands still: its lease expires
    with pytest.raises(NotLeaderError):
        two.check()


# --- whole processes ---------------------------------------------------------------------------------------


def toys(name: str, namespace: str) -> Controller[Obj]:
    """Creates a ConfigMap for each Toy and then writes the creator into the status."""

    def decide(toy: Obj, made: Obj | None) -> Decision:
        if toy.get("status", {}).get("phase") == "Done":
            return Decision()
        if made is None:
            return Decision(steps=(Create(CONFIG_MAP, child(toy, name=toy["metadata"]["name"])),))
        return Decision(status={"phase": "Done", "by": name}, events=(EventRecord("Normal", "Done", "done"),))

    def owners(obj: Obj, caches: Caches) -> Iterable[Key]:
        return [
            Key(obj["metadata"]["namespace"], owner["name"])
            for owner in obj["metadata"].get("ownerReferences", ())
        ]

    def observe(caches: Caches, key: Key) -> tuple[Obj, Obj | None] | None:
        toy = caches[TOY].get(key)
        return (toy, next(iter(caches[CONFIG_MAP].by("owner", uid_of(toy))), None)) if toy else None

    return Controller(
        name="toys",
        watches=(
            Watch(TOY, lambda obj, caches: [key_of(obj)], namespace=namespace),
            Watch(CONFIG_MAP, owners, namespace=namespace, indexes={"owner": owner_uids}),
        ),
        observe=observe,
        decide=lambda seen, facts, now: decide(*seen),
        primary=lambda seen: seen[0],
    )


async def replica(kubeconfig: Path, namespace: str, name: str, stop: asyncio.Event) -> int:
    clock, metrics = SystemClock(), Metrics()
    credentials = load(kubeconfig, None)
    async with Client(credentials) as lease_api:
        lease = Lease(
            lease_api, Key(namespace, "toys"), name, clock, duration=30, renew_deadline=25, interval=0.5
        )
        async with Client(credentials, guard=lease.check, observer=metrics.requests("local")) as api:
            recorder = Recorder(api, clock, metrics, instance=name)
            manager = Manager(
                api,
                [toys(name, namespace)],
                lease=lease,
                clock=clock,
                metrics=metrics,
                record=recorder.record,
            )
            return await run([manager], clock=clock, metrics=metrics, recorder=recorder, stop=stop)


async def test_two_replicas_and_a_takeover(kubeconfig: Path, api: Client, toy: Obj) -> None:
    namespace = toy["metadata"]["namespace"]

    async def by(name: str) -> str | None:
        found: str | None = (await api.get(TOY, Key(namespace, name))).get("status", {}).get("by")
        return found

    stops = {name: asyncio.Event() for name in ("one", "two")}
    first = asyncio.create_task(replica(kubeconfig, namespace, "one", stops["one"]))
    assert await until(lambda: by("toy")) == "one"
    second = asyncio.create_task(replica(kubeconfig, namespace, "two", stops["two"]))
    await asyncio.gather(*(make_toy(api, namespace, f"more-{number}") for number in range(20)))
    for number in range(20):
        assert await until(lambda name=f"more-{number}": by(name)) == "one"
    stops["one"].set()
    assert await first == 0
    await make_toy(api, namespace, "late")
    assert await until(lambda: by("late")) == "two"
    stops["two"].set()
    assert await second == 0
    events = (await api.list(EVENT, namespace=namespace)).items
    assert len([event for event in events if event["reason"] == "Done"]) == 22
