"""Probes of a cluster: one new connection, one GET /version, and the result with reason and message."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import aiohttp

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, KubeError, ServerError
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
