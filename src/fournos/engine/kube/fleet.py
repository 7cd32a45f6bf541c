"""Other clusters: a connection, probes and caches for each; a slow one does not delay the others."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.probe import ClusterApi, FleetWatch, Member, Probe
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.kube.store import Store
from fournos.engine.kube.transport import Observer
from fournos.engine.kube.untrusted_kubeconfig import KubeconfigRefusedError, check

# --- names ------------------------------------------------------------------------------------------
# Name resolution in threads of its own, so that one unreachable name server cannot block the others.
#
# The event loop resolves names in a small thread pool.  A name server that drops packets blocks one of its
# threads for half a minute.

_Key: TypeAlias = tuple[str, int, int]
_Answer: TypeAlias = list[ResolveResult] | OSError


class LoneResolver(AbstractResolver):
    """A resolver for the connections to one server, with at most one thread per name and none when idle."""

    def __init__(self) -> None:
        self._lookups: dict[_Key, asyncio.Future[_Answer]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns the addresses.  Raises OSError.

        If a caller is cancelled, the lookup continues, and later callers share it.
        """
        key = (host, port, int(family))
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.get_running_loop().create_future()
            # A daemon thread, because a pending lookup must not delay the end of the process.
            threading.Thread(
                target=self._look_up, args=(key, lookup), name=f"look up {host}", daemon=True
            ).start()
        answer = await asyncio.shield(lookup)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def close(self) -> None:
        """Does nothing: a thread ends with its lookup."""

    def _look_up(self, key: _Key, lookup: asyncio.Future[_Answer]) -> None:
        host, port, family = key
        answer: _Answer
        try:
            answer = [
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=int(address[1]),
                    family=address_family,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
                for address_family, _, protocol, _, address in socket.getaddrinfo(
                    host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG
                )
            ]
        except OSError as error:
            answer = error
        except UnicodeError:
            answer = OSError(f"{host} is not a name")
        try:
            lookup.get_loop().call_soon_threadsafe(self._done, key, lookup, answer)
        except RuntimeError:
            return  # the event loop has ended, so there is no waiting caller

    def _done(self, key: _Key, lookup: asyncio.Future[_Answer], answer: _Answer) -> None:
        self._lookups.pop(key, None)
        if not lookup.done():
            lookup.set_result(answer)


__all__ = ["ClusterApi", "Fleet", "FleetWatch", "KubeconfigRefusedError", "Probe"]

logger = logging.getLogger(__name__)

SETTLE: Final = 0.1
"""Seconds for which changes of one cluster are collected into one call of `on_change`."""
REQUEST_TIMEOUT: Final = 30.0
_QPS: Final = 50.0
_BURST: Final = 100
_MAX_BYTES: Final = 8 * 2**20
"""Maximum bytes of a response: of a page of objects or of one watch event."""


class Dial(Protocol):
    """Connects to an API server; tests connect to one in memory."""

    def __call__(self, name: str, credentials: Credentials, *, timeout: float) -> ClusterApi: ...


class Fleet:
    """The connections to a set of other clusters.

    All methods but `run` return at once; call them in the event loop of `run`.

    `on_change` is called with the name of a cluster when the result of its probes, its stored objects or the
    error of a watch has changed.  Changes within 0.1 s are one call.  It must not block.  Changes outside a
    projection are ignored.  `on_object` is called at once with the old and the new version of each changed
    object.  `qps` limits the requests to each cluster.
    """

    def __init__(
        self,
        *,
        watches: Sequence[FleetWatch],
        on_change: Callable[[str], None],
        on_object: Callable[[str, Obj | None, Obj | None], None] = lambda name, old, new: None,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        qps: float = _QPS,
        probe_interval: float = 30.0,
        timeout: float = 10.0,
        observer: Observer | None = None,
        dial: Dial | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._watches = {watch.resource: watch for watch in watches}
        if len(self._watches) != len(watches):
            raise ValueError("a resource type can be watched once only")
        self._on_change = on_change
        self._on_object = on_object
        self._qps = qps
        self._now = now
        self._monotonic = monotonic
        self._interval = probe_interval
        self._timeout = timeout
        self._observer = observer
        self._dial = dial or self._dial_over_http
        self._resolvers: dict[str, LoneResolver] = {}
        self._rng = rng or random.Random()  # noqa: S311 - spreads load
        self._members: dict[str, Member] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._pending: dict[str, asyncio.TimerHandle] = {}
        self._running = False

    # --- members -------------------------------------------------------------------------------------

    def connect(
        self, name: str, kubeconfig: bytes, *, version: str, unreachable_since: datetime | None = None
    ) -> None:
        """Adds the cluster, or replaces its kubeconfig; does nothing if `version` is the one in use.

        A kubeconfig for the same server keeps stores and probe result until the new connection has its own.
        A kubeconfig for another server starts empty.  The time of the loss is kept in both cases.
        `unreachable_since` sets it for a cluster that is new in this process, from a status that is older
        than the process.  Raises KubeconfigRefusedError; the cluster is then forgotten, because its earlier
        kubeconfig was withdrawn.
        """
        before = self._members.get(name)
        if before is not None and before.version == version:
            return
        try:
            checked = check(kubeconfig, now=self._now())
        except KubeconfigRefusedError:
            self.disconnect(name)
            raise
        since = before.since if before is not None else unreachable_since
        self.disconnect(name)
        same = before if before is not None and before.server == checked.credentials.server else None
        stores = same.stores if same else {}
        for of, watch in self._watches.items():
            stores.setdefault(of, Store(project=watch.project, indexes=watch.indexes))

        def dial(timeout: float) -> ClusterApi:
            return self._dial(name, checked.credentials, timeout=timeout)

        self._members[name] = Member(
            name,
            checked,
            version=version,
            watches=self._watches.values(),
            stores=stores,
            api=dial(REQUEST_TIMEOUT),
            dial=lambda: dial(self._timeout),
            on_change=lambda: self._changed(name),
            on_object=lambda old, new: self._on_object(name, old, new),
            now=self._now,
            monotonic=self._monotonic,
            interval=self._interval,
            timeout=self._timeout,
            last=same.last if same else None,
            since=since,
            rng=self._rng,
        )
        self._changed(name)
        if self._running:
            self._start(name)

    def disconnect(self, name: str) -> None:
        """Ends the cluster's tasks and connections and drops its stores; ignores an unknown cluster."""
        if pending := self._pending.pop(name, None):
            pending.cancel()
        self._resolvers.pop(name, None)
        member = self._members.pop(name, None)
        if member is None:
            return
        member.stop()
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
        leaving = asyncio.create_task(_leave(member, task), name=f"cluster {name} leaves")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    # --- reading -------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._members))

    def version_of(self, name: str) -> str | None:
        """Returns the version of the kubeconfig in use; None if the cluster is not connected."""
        member = self._members.get(name)
        return member.version if member else None

    def probe(self, name: str) -> Probe | None:
        """Returns the last probe; None before the end of the first, which takes at most `timeout` seconds."""
        member = self._members.get(name)
        return member.last if member else None

    def store(self, name: str, resource: Resource) -> Store | None:
        """Returns the store of a resource type; None for an unknown cluster or a type that is not watched.

        It keeps the last observed objects while the cluster is unreachable.  It is empty and not `synced`
        before the first list.
        """
        member = self._members.get(name)
        return member.stores.get(resource) if member else None

    def watch_error(self, name: str, resource: Resource) -> KubeError | None:
        """Returns the error of a watch in a reachable cluster, such as a missing right."""
        member = self._members.get(name)
        return member.watch_error(resource) if member else None

    def api(self, name: str) -> ClusterApi | None:
        """Returns the client for requests.

        Call this for each request: the client is closed when the kubeconfig changes or the cluster is
        forgotten.
        """
        member = self._members.get(name)
        return member.api if member else None

    # --- running -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs until cancelled; afterwards no task and no connection is left."""
        self._running = True
        try:
            for name in self.names():
                self._start(name)
            await asyncio.Event().wait()
        finally:
            self._running = False
            for name in self.names():
                self.disconnect(name)
            await asyncio.gather(*self._leaving, return_exceptions=True)

    def _start(self, name: str) -> None:
        run = self._members[name].run()
        self._tasks[name] = asyncio.create_task(run, name=f"cluster {name}")

    def _changed(self, name: str) -> None:
        if name not in self._pending and name in self._members:
            loop = asyncio.get_running_loop()
            self._pending[name] = loop.call_later(SETTLE, self._notify, name)

    def _notify(self, name: str) -> None:
        del self._pending[name]
        try:
            self._on_change(name)
        except Exception:
            logger.exception("a change of cluster %s could not be handed on", name)

    def _dial_over_http(self, name: str, credentials: Credentials, *, timeout: float) -> ClusterApi:
        return Client(
            credentials,
            name=name,
            qps=self._qps,
            burst=max(_BURST, int(2 * self._qps)),
            timeout=timeout,
            observer=self._observer,
            max_bytes=_MAX_BYTES,
            resolver=self._resolvers.setdefault(name, LoneResolver()),
        )


async def _leave(member: Member, task: asyncio.Task[None] | None) -> None:
    if task is not None:
        await asyncio.gather(task, return_exceptions=True)
    await member.close()
