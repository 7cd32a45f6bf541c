"""A fleet before a real API server: dropped packets, changed and revoked credentials, many clusters at once.

Unreachable clusters are ports of this machine that drop packets: no connection is refused or closed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from fournos.engine.kube.client import Client
from fournos.engine.kube.fleet import Fleet, FleetWatch, KubeconfigRefusedError, Probe
from fournos.engine.kube.resource import CONFIG_MAP, SERVICE_ACCOUNT, Key
from tests.faults.proxy import FaultProxy
from tests.integration.conftest import Server
from tests.waiting import seconds_until, until

INTERVAL, TIMEOUT = 2.0, 1.5

can_drop = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("iptables") is None, reason="dropping packets needs root and iptables"
)


class Watching:
    """A running fleet that watches the ConfigMaps of one namespace."""

    def __init__(self, namespace: str, *, timeout: float = TIMEOUT) -> None:
        self.changes: list[str] = []
        self.fleet = Fleet(
            watches=[FleetWatch(CONFIG_MAP, namespace=namespace, selector="fleet=yes")],
            on_change=self.changes.append,
            now=lambda: datetime.now(UTC),
            monotonic=time.monotonic,
            probe_interval=INTERVAL,
            timeout=timeout,
        )

    def probe(self, name: str = "a") -> Probe:
        found = self.fleet.probe(name)
        assert found is not None
        return found

    def well(self, name: str = "a") -> bool:
        found = self.fleet.probe(name)
        return found is not None and found.reachable

    def lost(self, name: str = "a") -> bool:
        found = self.fleet.probe(name)
        return found is not None and not found.reachable

    def names(self, name: str = "a") -> set[str]:
        store = self.fleet.store(name, CONFIG_MAP)
        assert store is not None
        return {obj["metadata"]["name"] for obj in store}


@pytest.fixture
def real(kubeconfig: Path) -> bytes:
    return kubeconfig.read_bytes()


@pytest.fixture
async def run(namespace: str) -> AsyncIterator[Watching]:
    watching = Watching(namespace)
    task = asyncio.create_task(watching.fleet.run())
    await asyncio.sleep(0)
    yield watching
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def put(client: Client, namespace: str, name: str) -> None:
    metadata = {"namespace": namespace, "name": name, "labels": {"fleet": "yes"}}
    await client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


@asynccontextmanager
async def proxied(kubeconfig: Path, real: bytes, tmp_path: Path) -> AsyncIterator[tuple[FaultProxy, bytes]]:
    """The API server behind a port of its own, and a kubeconfig for that."""
    async with FaultProxy(kubeconfig, tls=True) as proxy:
        content = yaml.safe_load(proxy.write_kubeconfig(tmp_path / "proxied").read_bytes())
        # The proxy acts with an identity of its own and asks for none.
        content["users"][0]["user"] = yaml.safe_load(real)["users"][0]["user"]
        yield proxy, yaml.safe_dump(content).encode()


@contextmanager
def dropped(url: str) -> Iterator[None]:
    """Packets to and from this port of the machine vanish."""
    port = str(urlsplit(url).port)
    rules = [
        ["INPUT", "-i", "lo", "-p", "tcp", "--dport", port, "-j", "DROP"],
        ["INPUT", "-i", "lo", "-p", "tcp", "--sport", port, "-j", "DROP"],
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


async def test_a_cluster_is_well_and_its_changes_arrive(
    run: Watching, real: bytes, direct: Client, namespace: str
) -> None:
    run.fleet.connect("a", real, version="1")
    await until(run.well)
    found = run.probe()
    assert found.version == await direct.server_version()
    assert 0 < found.latency_ms < TIMEOUT * 1000
    assert found.reason == found.error == ""
    store = run.fleet.store("a", CONFIG_MAP)
    assert store is not None
    await until(lambda: store.synced)
    run.changes.clear()
    await put(direct, namespace, "one")
    await until(lambda: run.names() == {"one"})
    await until(lambda: run.changes == ["a"])


@can_drop
async def test_dropped_packets_are_noticed_in_time_and_healed_by_a_new_list(
    run: Watching, kubeconfig: Path, real: bytes, direct: Client, namespace: str, tmp_path: Path
) -> None:
    await put(direct, namespace, "before")
    async with proxied(kubeconfig, real, tmp_path) as (proxy, content):
        run.fleet.connect("a", content, version="1")
        await until(lambda: run.names() == {"before"})
        with dropped(proxy.url):
            began = datetime.now(UTC)
            await until(run.lost)
            assert run.probe().reason == "Timeout"
            since = run.probe().unreachable_since
            assert since is not None and since >= began
            await put(direct, namespace, "meanwhile")
            await asyncio.sleep(2 * TIMEOUT)
            assert run.probe().unreachable_since == since
            assert run.names() == {"before"}
        await until(lambda: run.names() == {"before", "meanwhile"})
        assert run.probe().unreachable_since is None
        await put(direct, namespace, "after")
        await until(lambda: "after" in run.names())


async def test_credentials_are_renewed_and_withdrawn(
    run: Watching, real: bytes, server: Server, direct: Client, namespace: str
) -> None:
    def with_token(token: str) -> bytes:
        content = yaml.safe_load(real)
        content["users"][0]["user"] = {"token": token}
        return yaml.safe_dump(content).encode()

    metadata = {"namespace": namespace, "name": "reader"}
    await direct.create(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/reader/token"
    kind: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    status, answer = await server("POST", path, {**kind, "spec": {"expirationSeconds": 900}})
    assert status == 201, answer
    await put(direct, namespace, "one")

    run.fleet.connect("a", with_token(answer["status"]["token"]), version="1")
    await until(run.well)
    expires = run.probe().certificate_expires
    assert expires is not None
    assert 800 < (expires - datetime.now(UTC)).total_seconds() <= 900
    await until(lambda: run.fleet.watch_error("a", CONFIG_MAP) is not None)
    assert run.names() == set(), "the ServiceAccount has no rights"

    run.fleet.connect("a", real, version="2")
    assert run.well(), "a renewal is not a loss"
    await until(lambda: run.names() == {"one"})
    assert run.fleet.watch_error("a", CONFIG_MAP) is None

    run.fleet.connect("a", with_token(answer["status"]["token"]), version="3")
    await direct.delete(SERVICE_ACCOUNT, Key(namespace, "reader"))
    await until(run.lost)  # API servers remember good tokens for 10 s
    assert run.probe().reason == "Unauthorized"
    assert answer["status"]["token"] not in run.probe().error

    with pytest.raises(KubeconfigRefusedError):
        run.fleet.connect("a", b"garbage", version="4")
    assert run.fleet.names() == ()


@can_drop
async def test_dead_clusters_do_not_slow_twenty_others(
    run: Watching, kubeconfig: Path, real: bytes, direct: Client, namespace: str, tmp_path: Path
) -> None:
    await put(direct, namespace, "one")
    names = [f"c{number}" for number in range(20)]
    async with proxied(kubeconfig, real, tmp_path) as (proxy, content):
        with dropped(proxy.url):
            for number in range(3):
                run.fleet.connect(f"dead{number}", content, version="1")
            started = time.monotonic()
            for name in names:
                run.fleet.connect(name, real, version="1")
            connecting = time.monotonic() - started
            together = await seconds_until(lambda: all(run.names(name) == {"one"} for name in names))
            print(f"20 clusters: read in {connecting:.2f} s, listed in {together:.2f} s")
            await until(lambda: run.lost("dead0") and run.lost("dead2"))
            seen = {name: run.probe(name).at for name in names}
            await until(lambda: all(run.probe(name).at > seen[name] and run.well(name) for name in names))
            changed = time.monotonic()
            await put(direct, namespace, "two")
            await until(lambda: all(len(run.names(name)) == 2 for name in names))
            print(f"a change in 20 clusters: {time.monotonic() - changed:.2f} s")
