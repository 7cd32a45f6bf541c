"""A reflector through the fault proxy: watches that are cut, silent, refused or lose an event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fournos.engine.kube.client import Client
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.kube.store import Store
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Cut, ErrorEvent, Hide, Hold, Refuse

MAPS = Resource("", "v1", "ConfigMap", "configmaps")
WAIT = 20


def config_map(namespace: str, name: str = "x", **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "labels": {"fault": "test"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


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
