"""The fault proxy itself: configured faults occur, everything else passes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    ServerError,
)
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.kube.store import Store
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Cut, Delay, ErrorEvent, Hide, Hold, Refuse

MAPS = Resource("", "v1", "ConfigMap", "configmaps")
WAIT = 20


def config_map(namespace: str, name: str = "x", **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "labels": {"fault": "test"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def test_without_rules_everything_passes(client: Client, proxy: FaultProxy, namespace: str) -> None:
    made = await client.create(MAPS, config_map(namespace))
    key = Key(namespace, "x")
    assert (await client.get(MAPS, key))["metadata"]["uid"] == made["metadata"]["uid"]
    assert len((await client.list(MAPS, namespace=namespace, selector="fault=test")).items) == 1
    assert (await client.patch(MAPS, key, {"data": {"a": "1"}}))["data"] == {"a": "1"}
    await client.delete(MAPS, key, uid=made["metadata"]["uid"])
    with pytest.raises(NotFoundError):
        await client.get(MAPS, key)
    assert [(call.verb, status) for call, status in proxy.calls] == [
        ("create", 201),
        ("get", 200),
        ("list", 200),
        ("patch", 200),
        ("delete", 200),
        ("get", 404),
    ]


async def test_refused_before_it_reaches_the_api_server(
    client: Client, direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    rule = proxy.on_request(Refuse(503), verb="create", resource="configmaps", namespace=namespace)
    with pytest.raises(ServerError):
        await client.create(MAPS, config_map(namespace))
    assert rule.hits == 1
    with pytest.raises(NotFoundError):
        await direct.get(MAPS, Key(namespace, "x"))
    await client.create(MAPS, config_map(namespace))


@pytest.mark.parametrize(
    ("fault", "kind"), [(Cut(after=True), ConnectionLostError), (Refuse(504, after=True), ServerError)]
)
async def test_done_but_the_answer_is_lost(
    client: Client,
    direct: Client,
    proxy: FaultProxy,
    namespace: str,
    fault: Cut | Refuse,
    kind: type[Exception],
) -> None:
    proxy.on_request(fault, verb="create", resource="configmaps", namespace=namespace)
    with pytest.raises(kind):
        await client.create(MAPS, config_map(namespace))
    await direct.get(MAPS, Key(namespace, "x"))
    with pytest.raises(AlreadyExistsError):
        await client.create(MAPS, config_map(namespace))


async def test_each_kind_of_refusal_so_many_times(client: Client, proxy: FaultProxy, namespace: str) -> None:
    await client.create(MAPS, config_map(namespace))
    key = Key(namespace, "x")
    for code, kind in ((409, ConflictError), (410, GoneError), (500, ServerError)):
        proxy.on_request(Refuse(code), verb="patch", name="x", times=2)
        for _ in range(2):
            with pytest.raises(kind):
                await client.patch(MAPS, key, {"data": {"a": "1"}})
        await client.patch(MAPS, key, {"data": {"a": "1"}})
    proxy.on_request(Refuse(429, retry_after=1), verb="patch")
    with pytest.raises(ServerError) as caught:
        await client.patch(MAPS, key, {"data": {"a": "1"}})
    assert caught.value.retry_after == 1
    before = asyncio.get_running_loop().time()
    await client.patch(MAPS, key, {"data": {"a": "1"}})
    assert asyncio.get_running_loop().time() - before >= 0.9


async def test_a_rule_is_for_what_it_names(client: Client, proxy: FaultProxy, namespace: str) -> None:
    proxy.on_request(Refuse(500), verb="create", resource="secrets", times=None)
    proxy.on_request(Refuse(500), verb="create", namespace="other", times=None)
    proxy.on_request(Refuse(500), verb="patch", subresource="status", times=None)
    await client.create(MAPS, config_map(namespace))
    await client.patch(MAPS, Key(namespace, "x"), {"data": {"a": "1"}})


async def test_a_held_request_waits_and_a_delayed_one_is_late(
    client: Client, direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    hold = Hold()
    rule = proxy.on_request(hold, verb="create")
    writing = asyncio.create_task(client.create(MAPS, config_map(namespace)))
    await rule.hit.wait()
    with pytest.raises(NotFoundError):
        await direct.get(MAPS, Key(namespace, "x"))
    hold.release()
    await writing
    proxy.on_request(Delay(0.3), verb="get")
    before = asyncio.get_running_loop().time()
    await client.get(MAPS, Key(namespace, "x"))
    assert asyncio.get_running_loop().time() - before >= 0.3


async def test_a_token_of_the_client_is_passed_on(proxy: FaultProxy, tmp_path: Path, namespace: str) -> None:
    path = proxy.write_kubeconfig(tmp_path / "config", token="not-a-token")
    async with Client(load(path)) as unknown:
        with pytest.raises(ForbiddenError) as caught:
            await unknown.list(MAPS, namespace=namespace)
    assert caught.value.status == 401


# --- watches, through the reflector ------------------------------------------------------------------


class Reflected:
    """A store filled through the proxy, and the changes that its reflector reported."""

    def __init__(self, client: Client, namespace: str, inactivity: float) -> None:
        self.store = Store()
        self.changes: list[tuple[str, str]] = []
        self.changed = asyncio.Event()
        self.namespace = namespace
        self.reflector = Reflector(
            client,
            MAPS,
            self.store,
            namespace=namespace,
            selector="fault=test",
            on_change=self._on_change,
            inactivity=inactivity,
        )

    def _on_change(self, kind: str, old: Obj | None, new: Obj | None) -> None:
        shown = new or old
        assert shown is not None
        self.changes.append((kind, shown["metadata"]["name"]))
        self.changed.set()

    def has(self, name: str) -> bool:
        return self.store.get(Key(self.namespace, name)) is not None

    async def until(self, *changes: tuple[str, str]) -> None:
        """Waits until exactly these changes have been reported."""
        async with asyncio.timeout(WAIT):
            while len(self.changes) < len(changes):
                self.changed.clear()
                await self.changed.wait()
        assert self.changes == list(changes)


@contextlib.asynccontextmanager
async def reflected(client: Client, namespace: str, *, inactivity: float = 90) -> AsyncIterator[Reflected]:
    """Already watching."""
    view = Reflected(client, namespace, inactivity)
    task = asyncio.create_task(view.reflector.run())
    try:
        await client.create(MAPS, config_map(namespace, "first"))
        await view.until(("ADDED", "first"))  # by the list or by the watch
        await client.patch(MAPS, Key(namespace, "first"), {"data": {"seen": "1"}})
        await view.until(("ADDED", "first"), ("MODIFIED", "first"))
        view.changes.clear()
        yield view
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("fault", [Cut(), ErrorEvent(500), ErrorEvent(429), ErrorEvent(410, "Expired")])
async def test_a_watch_that_fails_loses_nothing(
    client: Client, direct: Client, proxy: FaultProxy, namespace: str, fault: Cut | ErrorEvent
) -> None:
    async with reflected(client, namespace) as view:
        rule = proxy.on_event(fault, resource="configmaps", namespace=namespace)
        await direct.delete(MAPS, Key(namespace, "first"))
        await view.until(("DELETED", "first"))
        assert rule.hits == 1
        assert view.reflector.restarts == 1
        assert view.reflector.relists == (2 if fault == ErrorEvent(410, "Expired") else 1)


async def test_watches_that_are_cut_while_idle_come_back(
    client: Client, direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    async with reflected(client, namespace) as view:
        assert proxy.cut_watches("secrets") == 0
        assert proxy.cut_watches("configmaps") == 1
        await direct.create(MAPS, config_map(namespace, "second"))
        await view.until(("ADDED", "second"))


async def test_a_silent_watch_is_noticed_and_what_it_missed_is_made_up_for(
    client: Client, direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    async with reflected(client, namespace, inactivity=2) as view:
        rule = proxy.on_event(Hide(), resource="configmaps", type="*", times=None)
        await direct.delete(MAPS, Key(namespace, "first"))
        await rule.hit.wait()
        rule.cancel()
        assert view.has("first")
        await view.until(("DELETED", "first"))


async def test_a_hidden_event_is_healed_by_the_next_list(
    client: Client, direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    async with reflected(client, namespace) as view:
        proxy.on_event(Hide(), resource="configmaps", name="first", type="DELETED")
        await direct.delete(MAPS, Key(namespace, "first"))
        await direct.create(MAPS, config_map(namespace, "second"))
        await view.until(("ADDED", "second"))
        assert view.has("first"), "a ghost"
        proxy.on_event(ErrorEvent(410), resource="configmaps")
        await direct.create(MAPS, config_map(namespace, "third"))
        await view.until(("ADDED", "second"), ("ADDED", "third"), ("DELETED", "first"))


async def test_held_events_leave_the_cache_behind_and_assume_bridges_it(
    client: Client, proxy: FaultProxy, namespace: str
) -> None:
    async with reflected(client, namespace) as view:
        hold = Hold()
        rule = proxy.on_event(hold, resource="configmaps")
        answer = await client.create(MAPS, config_map(namespace, "mine"))
        await rule.hit.wait()
        assert not view.has("mine")
        view.store.assume(answer)
        assert view.has("mine")
        await client.delete(MAPS, Key(namespace, "first"))
        hold.release()
        await view.until(("DELETED", "first"))


async def test_a_refused_list_and_a_refused_watch_are_tried_again(
    client: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.on_request(Refuse(500), verb="list", times=2)
    proxy.on_request(Cut(), verb="watch", times=2)
    async with reflected(client, namespace) as view:
        assert view.has("first")
