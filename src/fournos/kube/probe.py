"""Whether a cluster can be used: one new connection, one GET /version, a verdict in words."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import aiohttp

from fournos.kube.api import Api
from fournos.kube.errors import ConnectionLostError, ForbiddenError, KubeError, ServerError
from fournos.kube.untrusted_kubeconfig import Checked, expired

logger = logging.getLogger(__name__)

THROTTLED: Final = 429
_NO_VERSION: Final = re.compile(r"[^\w.+~-]")


@dataclass(frozen=True, slots=True)
class Probe:
    """What the last probe found.  `reason` is CamelCase for a condition and "" when all is well."""

    reachable: bool
    """The API server answers, and takes our credentials."""
    version: str
    """As the API server writes it, "v1.34.4"; while it does not answer, what it said last."""
    latency_ms: float
    """Of a whole new connection: name, TCP, TLS and answer; 0 when there was none."""
    certificate_expires: datetime | None
    """When the client certificate, or else the token, ends; None when that is not known."""
    reason: str
    error: str
    """What is wrong and what to do; no secret, nothing that the other side wrote."""
    at: datetime
    unreachable_since: datetime | None
    """The first of the failures in a row; None while reachable."""
    failures: int = 0
    """In a row, since this process began; 0 while reachable."""
    next_at: datetime | None = None
    """When the next probe begins."""

    def verdict(self) -> tuple[bool, str, str, datetime | None]:
        """What listeners are told of; time, latency and wording change with every probe."""
        return self.reachable, self.reason, self.version, self.certificate_expires


class ClusterApi(Api, Protocol):
    """What the fleet needs of an API server; `Client` is one."""

    async def server_version(self) -> str: ...

    async def close(self) -> None: ...


async def probe(
    connect: Callable[[], ClusterApi],
    checked: Checked,
    *,
    before: Probe | None,
    since: datetime | None,
    limit: float,
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
) -> Probe:
    """Ends within `limit` seconds, whatever the other side does; raises nothing but cancellation.

    `before` is the last verdict of this cluster; `since` when the loss of it began, if it is lost.
    A connection of its own: one kept from an earlier request may live on where no new one can be made,
    or be dead where a new one can.
    """
    at = now()
    version, latency, reachable, reason, error = before.version if before else "", 0.0, False, "", ""
    if checked.expires is not None and checked.expires <= at:
        refusal = expired(checked.expires, by_certificate=checked.by_certificate)
        reason, error = refusal.reason, refusal.message
    else:
        started = monotonic()
        try:
            version = await _ask(connect, limit)
            reachable = True
            latency = (monotonic() - started) * 1000
        except (KubeError, TimeoutError) as failure:
            reachable, reason, error = explain(failure, server=checked.credentials.server, limit=limit)
        except Exception as failure:  # a fault of ours: the cluster's task must live, the verdict must show
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


async def _ask(connect: Callable[[], ClusterApi], limit: float) -> str:
    async with asyncio.timeout(limit):
        api = connect()
        try:
            return _NO_VERSION.sub("", await api.server_version())[:64]
        finally:
            await api.close()


def explain(failure: Exception, *, server: str, limit: float) -> tuple[bool, str, str]:
    """Reachable or not, reason and message of a failed GET /version.  Nothing the server said is quoted."""
    status = failure.status if isinstance(failure, KubeError) else 0
    cause = failure.__cause__ if isinstance(failure, ConnectionLostError) else failure
    match failure:
        case ForbiddenError(status=403):
            return (
                True,
                "VersionForbidden",
                f"{server} answers but lets us not read /version; bind the ClusterRole system:discovery",
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
        case aiohttp.ClientConnectorCertificateError(certificate_error=trouble):
            why = getattr(trouble, "verify_message", "") or "not trusted"
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
