"""Replicas of a webhook server that a real API server calls, behind one address."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Key
from fournos.engine.runtime.certificates import TERMS, Terms
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.registration import LABEL, Address, Registrar
from fournos.engine.runtime.webhook.review import Webhook
from fournos.engine.runtime.webhook.server import WebhookServer
from tests.waiting import LIMIT, free_port


class Balancer:
    """Connections to the replicas in turn; those that do not listen are passed over."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ports: list[int] = []
        self.port = 0
        self._turn = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Balancer]:
        server = await asyncio.start_server(self._accept, self.address, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Ends all connections: the API server must connect anew."""
        for writer in list(self._open):
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self.ports:
            self._turn += 1
            port = self.ports[self._turn % len(self.ports)]
            try:
                inward, outward = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            for source, sink in ((reader, outward), (inward, writer)):
                task = asyncio.create_task(self._copy(source, sink))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return
        writer.close()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        self._open.add(sink)
        with suppress(OSError):
            while data := await source.read(2**16):
                sink.write(data)
                await sink.drain()
        self._open.discard(sink)
        sink.close()


class Replicas:
    """Those of one operator: one Secret, the configurations of one table."""

    def __init__(self, api: Client, namespace: str, balancer: Balancer, stack: AsyncExitStack) -> None:
        self.api = api
        self.namespace = namespace
        self.balancer = balancer
        self.metrics = Metrics()
        self.secret = Key(namespace, "cert")
        self._stack = stack

    async def start(
        self,
        webhooks: Sequence[Webhook],
        *,
        leads: bool = True,
        terms: Terms = TERMS,
        answering_api: Api | None = None,
    ) -> Registrar:
        """Starts one more replica.  Returns when it can be called; `answering_api` fetches its facts."""
        port = free_port()
        leading = asyncio.Event()
        if leads:
            leading.set()
        server = WebhookServer(answering_api or self.api, webhooks, metrics=self.metrics, linger=0)
        registrar = Registrar(
            self.api,
            webhooks,
            Address(self.balancer.url),
            secret=self.secret,
            clock=SystemClock(),
            metrics=self.metrics,
            leading=leading.wait,
            show=server.show,
            terms=terms,
        )
        jobs = [registrar.run(), server.run(port=port)]
        tasks = [asyncio.create_task(job) for job in jobs]
        self._stack.push_async_callback(_end, tasks)
        async with asyncio.timeout(LIMIT):
            while found := [*server.problems(), *registrar.problems()]:
                assert not any(task.done() for task in tasks), found
                await asyncio.sleep(0.02)
        self.balancer.ports.append(port)
        return registrar

    async def stop(self) -> None:
        """All of them, as if the process were gone."""
        self.balancer.ports.clear()
        self.balancer.cut()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def address_for(kubeconfig: Path) -> str:
    """Where the API server reaches this machine: the end from which we reach it."""
    server = urlsplit(load(kubeconfig).server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.connect((server.hostname, server.port or 443))
        return str(found.getsockname()[0])


@pytest.fixture
async def replicas(client: Client, namespace: str, kubeconfig: Path) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as stack:
        balancer = await stack.enter_async_context(Balancer(address_for(kubeconfig)).serving())
        yield Replicas(client, namespace, balancer, stack)
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for found in (await client.list(resource, selector=f"{LABEL}={namespace}")).items:
            await client.delete(resource, Key("", found["metadata"]["name"]))


async def handshake(balancer: Balancer, trusted: bytes) -> None:
    """As an API server that trusts these.  Raises ssl.SSLError."""
    context = ssl.create_default_context(cadata=trusted.decode())
    _, writer = await asyncio.open_connection(balancer.address, balancer.port, ssl=context)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
