"""Requests to one API server: authentication, rate limit, timeouts, fencing, typed errors."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeAlias

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver
from aiohttp.client import ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import (
    ConnectionLostError,
    InvalidError,
    KubeError,
    ServerError,
    TimedOutError,
    error_from,
)
from fournos.engine.kube.formats import pieces_of_file, whole_body
from fournos.engine.kube.resource import Obj

# --- rate limit and backoff -------------------------------------------------------------------------
# The rate limit of requests to an API server, and the backoff after failures.


class TokenBucket:
    """Allows at most `qps` requests per second over time and `burst` at once; waiters are served in order."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None
        self._paused_until = 0.0

    async def take(self) -> None:
        """Returns when one request may be sent."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        # The token is taken at once, even below zero: the debt is the position in the queue.
        self._tokens -= 1
        ready_at = now - self._tokens / self._qps if self._tokens < 0 else now
        try:
            while (wait := max(ready_at, self._paused_until) - loop.time()) > 1e-6:  # noqa: ASYNC110
                await asyncio.sleep(wait)  # then check again: `pause` may have moved the time
        except asyncio.CancelledError:
            self._tokens += 1
            raise

    def pause(self, seconds: float) -> None:
        """Delays all requests for so long, as the API server asked (Retry-After)."""
        until = asyncio.get_running_loop().time() + seconds
        self._paused_until = max(self._paused_until, until)


class Backoff:
    """Delays that grow with every failure, with decorrelated jitter so that clients do not retry together."""

    def __init__(self, *, base: float = 0.5, cap: float = 30.0, rng: random.Random | None = None) -> None:
        self._base = base
        self._cap = cap
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._last = base

    def next(self) -> float:
        """Returns the next delay in seconds."""
        self._last = min(self._cap, self._rng.uniform(self._base, self._last * 3))
        return self._last

    def reset(self) -> None:
        self._last = self._base


# --- connections ------------------------------------------------------------------------------------
# Connections to an API server: fenced writes, and an end at once when they are given up.


class Connector(aiohttp.TCPConnector):
    """Checks the fence of each write on its connection, and aborts abandoned TLS connections.

    `guard` runs when a connection is there, immediately before a write is sent on it, and may raise.
    Connecting takes time, and aiohttp itself repeats a PUT or DELETE when a kept connection turns out to be
    closed.  (A trace of aiohttp could run it too, but would cost every request and every chunk.)

    Aborts an abandoned TLS connection, as aiohttp does for those that are open when a session is closed:
    aiohttp closes the connection of a cut watch or of a cancelled request in good order: it waits up to 30 s
    for the peer's end of TLS.  A process that ends, or an event loop that closes, meanwhile leaves the socket
    open, and a server that no longer responds holds one socket for each abandoned request.
    """

    def __init__(self, *, guard: Callable[[], None] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._guard = guard

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if self._guard is not None and req.method != "GET":
            try:
                self._guard()
            except BaseException:
                connection.release()  # nothing was sent on it
                raise
        return connection

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if key.is_ssl and (should_close or protocol.should_close):
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)


logger = logging.getLogger(__name__)

Guard: TypeAlias = Callable[[], None]
Observer: TypeAlias = Callable[[str, str, int, float], None]
"""Called with verb, resource ("jobs.batch", "" for a raw path), HTTP status (0: no response), and seconds to
the response's head."""

CONNECT_TIMEOUT = 10.0
LONGEST_PAUSE = 30.0
LONGEST_REFUSAL = 2**22
"""Maximum bytes of an error response."""

_Proof: TypeAlias = tuple[MultiMapping[str], ssl.SSLContext | None]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request.  Metrics count `verb` and `resource`; the other fields are sent."""

    verb: str
    resource: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Obj | None = field(default=None, repr=False)
    """Not in the repr, because it may be a Secret."""
    content_type: str = "application/json"
    content: bytes | BinaryIO | None = field(default=None, repr=False)
    """Sent as it is, in place of a body; a file is streamed, and must be seekable."""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    """The limit of the whole request; None: that of the client."""
    buffer: int | None = None
    """Bytes of the response that are read ahead; None: as many as is fast."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """Sends requests; `fournos.engine.kube.client.Client` documents the parameters."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        qps: float,
        burst: int,
        timeout: float,
        guard: Guard | None,
        observer: Observer | None,
        user_agent: str,
        max_bytes: int | None = None,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._credentials = credentials
        self._bucket = TokenBucket(qps, burst)
        self._timeout = timeout
        self._guard = guard
        self._observer = observer
        self._max_bytes = max_bytes
        self._connections = _Connections(guard, resolver, user_agent)

    async def close(self) -> None:
        await self._connections.close()

    def of(self, credentials: Credentials, *, qps: float, burst: int) -> Transport:
        """Returns one with other credentials and a rate limit of its own, over the same connections."""
        transport = copy(self)
        transport._credentials = credentials
        transport._bucket = TokenBucket(qps, burst)
        return transport

    async def send(self, request: ApiRequest) -> bytes:
        """Returns the body of the response."""
        response = await self._open(request, request.seconds or self._timeout)
        async with response:
            try:
                return await whole_body(response, self._max_bytes)
            except (aiohttp.ClientError, OSError) as error:
                raise _lost(request, error) from error

    async def stream(self, request: ApiRequest) -> aiohttp.ClientResponse:
        """Returns a response without an end, whose head must arrive in time.  The caller closes it."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._open(request, None)
        except TimeoutError as error:
            raise _lost(request, error) from error

    async def _open(self, request: ApiRequest, limit: float | None) -> aiohttp.ClientResponse:
        """Returns a response below 300, its body unread.  After a 401 it tries once more with a new proof."""
        await self._bucket.take()
        proof = await self._credentials.proof()
        response = await self._exchange(request, proof, limit)
        if response.status == 401:
            self._credentials.invalidate()
            renewed = await self._credentials.proof()
            if renewed != proof:
                response.release()
                response = await self._exchange(request, renewed, limit)
        if response.status < 300:
            _plain(request, response)
            return response
        raise await self._refused(response)

    async def _exchange(
        self, request: ApiRequest, proof: _Proof, limit: float | None
    ) -> aiohttp.ClientResponse:
        headers, tls = CIMultiDict(proof[0]), proof[1]
        headers.update(request.headers)
        data: Any = request.content
        if data is not None and not isinstance(data, bytes):
            data = pieces_of_file(data)
        if request.body is not None:
            try:
                data = orjson.dumps(request.body)
            except TypeError as error:
                # Everything that was parsed from JSON can be serialized, unless it is nested too deeply.
                raise InvalidError(f"{request}: the object is nested too deeply to be written") from error
            headers["Content-Type"] = request.content_type
        loop = asyncio.get_running_loop()
        # The fence: checked after all waiting, so that no write is sent with an expired lease.  The
        # connector checks again once there is a connection.
        if self._guard is not None and request.method != "GET":
            self._guard()
        started = loop.time()
        status = 0
        try:
            response = await self._connections.session().request(
                request.method,
                URL(self._credentials.server + request.path, encoded=True),
                params=request.query or None,
                data=data,
                headers=headers,
                ssl=True if tls is None else tls,
                server_hostname=self._credentials.server_name,
                timeout=aiohttp.ClientTimeout(total=limit, sock_connect=CONNECT_TIMEOUT),
                read_bufsize=request.buffer,
                allow_redirects=False,  # the token must not be sent to another server
            )
            status = response.status
            return response
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(request, error) from error
        finally:
            seconds = loop.time() - started
            logger.debug("%s: %s in %.3f s", request, status or "no answer", seconds)
            if self._observer is not None:
                self._observer(request.verb, request.resource, status, seconds)

    async def _refused(self, response: aiohttp.ClientResponse) -> KubeError:
        async with response:
            try:
                body = await whole_body(response, self._max_bytes or LONGEST_REFUSAL)
            except (aiohttp.ClientError, OSError, ConnectionLostError):
                body = b""
        error = error_from(response.status, body, retry_after=response.headers.get("Retry-After"))
        if isinstance(error, ServerError) and error.status == 429 and error.retry_after:
            self._bucket.pause(min(error.retry_after, LONGEST_PAUSE))
        return error


class _Connections:
    """The open connections to one API server, made when the first is needed."""

    def __init__(self, guard: Guard | None, resolver: AbstractResolver | None, user_agent: str) -> None:
        self._guard = guard
        self._resolver = resolver
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    def session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ConnectionLostError("this connection was closed; open another one")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No connection limit: the token bucket is the limit, and watches hold connections.
                connector=Connector(
                    guard=self._guard, limit=0, keepalive_timeout=60, resolver=self._resolver
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                # Compression would cost both sides more CPU than the saved bytes are worth in a cluster.
                headers={
                    "User-Agent": self._user_agent,
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                },
                # Responses are never decompressed: a few KiB could become gigabytes.
                auto_decompress=False,
                read_bufsize=2**18,
            )
        return self._session


def _plain(request: ApiRequest, response: aiohttp.ClientResponse) -> None:
    packed = response.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        response.close()
        raise ConnectionLostError(
            f"{request}: the answer is compressed ({packed[:20]}), though identity was asked for; "
            "is there a proxy between us and the API server?"
        )


def _lost(request: ApiRequest, error: Exception) -> ConnectionLostError:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or "not trusted"
        return ConnectionLostError(
            f"{request}: the server's certificate: {why}; check server and certificate-authority-data"
        )
    if isinstance(error, TimeoutError):
        return TimedOutError(f"{request}: no answer in time")
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        # The error's own text contains Python's description of the TLS context.
        return ConnectionLostError(f"{request}: cannot connect to {error.host}:{error.port}: {_cause(error)}")
    return ConnectionLostError(f"{request}: {str(error) or type(error).__name__}")


def _cause(error: aiohttp.ClientConnectorError) -> str:
    number = error.os_error.errno
    return os.strerror(number) if number and number > 0 else str(error.os_error) or "no address"
