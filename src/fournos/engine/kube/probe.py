"""Probes of a cluster: one new connection, one GET /version, and the result with reason and message."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

import aiohttp

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, KubeError, ServerError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.kube.store import IndexFunction, Store, same_but_version
from fournos.engine.kube.transport import Backoff
from fournos.engine.kube.untrusted_kubeconfig import CheckedKubeconfig, expired

logger = logging.getLogger(__name__)

THROTTLED: Final = 429
_NO_VERSION: Final = re.compile(r"[^\w.+~-]")


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of the last probe.  `reason` is CamelCase for a condition; "" if the cluster is usable."""

    reachable: bool
    """True if the API server responds and accepts our credentials."""
    version: str
    """The API server's version, such as "v1.34.4"; while it does not respond, the last known one."""
    latency_ms: float
    """Milliseconds for a new connection (DNS, TCP, TLS) and the response; 0 without a response."""
    certificate_expires: datetime | None
    """The end of the client certificate, or else of the token; None if it is unknown."""
    reason: str
    error: str
    """The problem and its fix.  It contains no secret and no text from the other side."""
    at: datetime
    unreachable_since: datetime | None
    """The time of the first failure in a row; None while reachable."""
    failures: int = 0
    """Failures in a row since this process started; 0 while reachable."""
    next_at: datetime | None = None
    """The time of the next probe."""

    def verdict(self) -> tuple[bool, str, str, datetime | None]:
        """Returns the values whose change is reported; time, latency and message change with every probe."""
        return self.reachable, self.reason, self.version, self.certificate_expires


class ClusterApi(Api, Protocol):
    """The API server interface that the fleet needs; `Client` implements it."""

    async def server_version(self) -> str: ...

    async def close(self) -> None: ...


async def probe(
    connect: Callable[[], ClusterApi],
    checked: CheckedKubeconfig,
    *,
    before: Probe | None,
    since: datetime | None,
    limit: float,
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
) -> Probe:
    """Probes the cluster once, within `limit` seconds in every case; raises only CancelledError.

    `before` is the last result for this cluster; `since` is the time since which it is unreachable, if it is.
    The probe uses a new connection.  An older connection may still work when no new one can be made, or be
    broken when a new one can.
    """
    at = now()
    version, latency, reachable, reason, error = before.version if before else "", 0.0, False, "", ""
    if checked.expires is not None and checked.expires <= at:
        refusal = expired(checked.expires, by_certificate=checked.by_certificate)
        reason, error = refusal.reason, refusal.message
    else:
        started = monotonic()
        try:
            version = await _version(connect, limit)
            reachable = True
            latency = (monotonic() - started) * 1000
        except (KubeError, TimeoutError) as failure:
            reachable, reason, error = explain(failure, server=checked.credentials.server, limit=limit)
        except Exception as failure:  # a bug of ours must not end the cluster's task, and must be visible
            logger.exception("a probe of %s failed unexpectedly", checked.credentials.server)
            reason, error = "ProbeFailed", f"the probe failed unexpectedly: {type(failure).__name__}"
    return Probe(
        reachable=reachable,
        version=version,
        latency_ms=latency,
        certificate_expires=checked.expires,
        reason=reason,
        error=error,
        at=at,
        unreachable_since=None if reachable else since or at,
        failures=0 if reachable else (before.failures if before else 0) + 1,
    )


async def _version(connect: Callable[[], ClusterApi], limit: float) -> str:
    async with asyncio.timeout(limit):
        api = connect()
        try:
            return _NO_VERSION.sub("", await api.server_version())[:64]
        finally:
            await api.close()


def explain(failure: Exception, *, server: str, limit: float) -> tuple[bool, str, str]:
    """Returns reachability, reason and message for a failed GET /version; never quotes the server's text."""
    status = failure.status if isinstance(failure, KubeError) else 0
    cause = failure.__cause__ if isinstance(failure, ConnectionLostError) else failure
    match failure:
        case ForbiddenError(status=403):
            return (
                True,
                "VersionForbidden",
                f"{server} answers but does not let us read /version; bind the ClusterRole system:discovery",
            )
        case ForbiddenError():
            return (
                False,
                "Unauthorized",
                f"{server} refused the credentials (401); put a kubeconfig with valid ones in place",
            )
        case ServerError(status=code) if code == THROTTLED:
            return True, "Throttled", f"{server} is busy and asks us to wait (429)"
        case ServerError():
            return False, "ServerError", f"{server} answered {status}; look at the API server's health"
    match cause:
        case TimeoutError():
            return (
                False,
                "Timeout",
                f"{server}: no answer within {limit:g} s; check the address, firewalls and routes between",
            )
        case aiohttp.ClientConnectorDNSError():
            return False, "NameNotResolved", f"{server}: its name has no address; check server and DNS"
        case aiohttp.ClientConnectorCertificateError(certificate_error=error):
            why = getattr(error, "verify_message", "") or "not trusted"
            return (
                False,
                "ServerCertificateInvalid",
                f"{server}: its certificate: {why}; check server and certificate-authority-data",
            )
        case aiohttp.ClientSSLError():
            return False, "TLSFailed", f"{server} speaks no TLS that we can use; check the port"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return False, "ConnectionRefused", f"{server} refuses connections; is the API server running?"
        case aiohttp.ClientConnectorError():
            return False, "ConnectionFailed", f"{server} cannot be connected to; check the address"
    if status:
        return False, "NotAnAPIServer", f"{server}/version answered {status}; check server in the kubeconfig"
    if cause is None:
        return False, "NotAnAPIServer", f"{server}/version is not an API server's; check server"
    return False, "ConnectionLost", f"{server} dropped the connection before it answered"


# --- one cluster of the fleet -----------------------------------------------------------------------
# One cluster of the fleet: its probes and its watches, in a task of its own.

JITTER: Final = 0.1
"""Random share of the probe interval, so that the probes of the clusters do not run together."""


@dataclass(frozen=True, slots=True)
class FleetWatch:
    """A resource type that is watched in every cluster; `project` and `indexes` are those of `Store`."""

    resource: Resource
    namespace: str = ""
    selector: str = ""
    project: Callable[[Obj], Obj] | None = None
    indexes: Mapping[str, IndexFunction] = field(default_factory=dict)


class Member:
    """A connection to a cluster with one version of a kubeconfig.

    Watches run while the cluster is reachable.  A failed probe ends them and the next successful probe lists
    anew, because TCP keeps a watch on a broken line open and silent for a minute or more.  A watch with an
    error triggers a probe at once.  The stores keep the last observed objects.
    """

    def __init__(
        self,
        name: str,
        checked: CheckedKubeconfig,
        *,
        version: str,
        watches: Iterable[FleetWatch],
        stores: dict[Resource, Store],
        api: ClusterApi,
        dial: Callable[[], ClusterApi],
        on_change: Callable[[], None],
        on_object: Callable[[Obj | None, Obj | None], None],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        interval: float,
        timeout: float,
        last: Probe | None,
        since: datetime | None,
        rng: random.Random,
    ) -> None:
        self.name = name
        self.version = version
        self.server = checked.credentials.server
        self.stores = stores
        self.api = api
        self.last = last
        self.since = since
        """The time since which the cluster is unreachable."""
        self._checked = checked
        self._watches = tuple(watches)
        self._dial = dial
        self._on_change = on_change
        self._on_object = on_object
        self._now = now
        self._monotonic = monotonic
        self._interval = interval
        self._timeout = timeout
        self._rng = rng
        self._backoff = Backoff(cap=interval, rng=rng)
        self._broken = asyncio.Event()
        """Set when a watch had an error since the last probe began."""
        self._reflectors: dict[Resource, Reflector] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def watch_error(self, resource: Resource) -> KubeError | None:
        reflector = self._reflectors.get(resource)
        return reflector.error if reflector is not None else None

    async def run(self) -> None:
        """Runs until cancelled; call `close` afterwards."""
        while True:
            try:
                wait = await self._round()
            except Exception:  # an error in our code must not end the probes of the cluster
                logger.exception("cluster %s: unexpected failure", self.name)
                wait = self._backoff.next()
            if not self._tasks:
                await asyncio.sleep(wait)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._broken.wait()

    def stop(self) -> None:
        """Ends the watches, so that another member can write the stores from now on."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        await self._unwatch()
        await self.api.close()

    async def _round(self) -> float:
        """Probes once and starts or ends the watches; returns the seconds until the next probe."""
        self._broken.clear()
        probed = await probe(
            self._dial,
            self._checked,
            before=self.last,
            since=self.since,
            limit=self._timeout,
            now=self._now,
            monotonic=self._monotonic,
        )
        if probed.reachable:
            self._backoff.reset()
            wait = self._interval * self._rng.uniform(1 - JITTER, 1 + JITTER)
        else:
            wait = self._backoff.next()
        probed = replace(probed, next_at=self._now() + timedelta(seconds=wait))
        before, self.last, self.since = self.last, probed, probed.unreachable_since
        if before is None or before.verdict() != probed.verdict():
            level = logging.WARNING if probed.error else logging.INFO
            logger.log(level, "cluster %s: %s", self.name, probed.error or f"reachable, {probed.version}")
            self._on_change()
        if not probed.reachable:
            await self._unwatch()
        elif not self._tasks:
            self._watch()
        return wait

    def _watch(self) -> None:
        for watch in self._watches:
            resource = watch.resource
            reflector = self._reflectors[resource] = Reflector(
                self.api,
                resource,
                self.stores[resource],
                namespace=watch.namespace,
                selector=watch.selector,
                on_change=self._stored,
                on_state=self._watch_changed,
                where=self.name,
                rng=self._rng,
            )
            self._tasks.append(asyncio.create_task(reflector.run(), name=f"{self.name}: watch {resource}"))

    def _stored(self, _: str, old: Obj | None, new: Obj | None) -> None:
        if not same_but_version(old, new):
            self._on_change()
            self._on_object(old, new)

    def _watch_changed(self) -> None:
        if any(reflector.error is not None for reflector in self._reflectors.values()):
            self._broken.set()
        self._on_change()

    async def _unwatch(self) -> None:
        tasks, self._tasks = self._tasks, []
        self._reflectors.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
