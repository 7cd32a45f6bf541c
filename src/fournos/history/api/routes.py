"""The routes of the API as data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.listening import cut
from fournos.history.api.identity import Access, Scope
from fournos.history.api.parameters import NoParameters, Parameters

log = logging.getLogger(__name__)

LARGEST: Final = 8 * 2**20
"""Maximum bytes of a request whose body is read as a whole."""
SLOW: Final = 60.0
"""Seconds for which a reader may take nothing of an answer."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """An authorized request."""

    user: User
    scope: Scope
    """Where the caller has the right of the route."""
    parameters: Any
    """An instance of the route's `parameters`."""
    namespace: str = ""
    path: dict[str, str] = field(default_factory=dict)
    """The variables of the path."""
    body: Any = None
    """The parsed body; None for a route without one."""
    request: web.Request | None = None
    """The request itself, for routes that stream."""
    own: Obj | None = None
    """The FournosJob of the calling pod, for a route with `own`."""
    details: Scope = field(default_factory=lambda: Scope(()))
    """Where the caller has the right `Route.details`."""


Handler = Callable[[Any, ApiCall], Awaitable[Any]]
"""Called with the service and the call.  Returns an instance of the route's `response`."""


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    method: str
    path: str
    """Below the prefix of the group, with variables in braces; `{namespace}` is authorized."""
    name: str
    """What the log of writes calls it."""
    access: Access
    handler: Handler
    response: Any
    """The type of the response; None for 204."""
    parameters: type[Parameters] = NoParameters
    body: Any = None
    """The type of the request's body; None for none."""
    own: bool = False
    """The caller is a pod of a FournosJob's run and acts on that job, without any other right."""
    stream: bool = False
    """The handler reads the body itself, or returns a response of its own."""
    details: Access | None = None
    """The right by which the response has more."""


async def streamed(
    request: web.Request, response: web.StreamResponse, pieces: AsyncGenerator[bytes, None]
) -> web.StreamResponse:
    """Sends all pieces.  An error before the first one is raised; a later one cuts the connection.

    Nothing else shows a client that has the head already that this is not all of it.  Raises
    ConnectionResetError then, and if the reader does not take a piece in time.
    """
    async with aclosing(pieces):
        first = await anext(pieces, b"")
        await response.prepare(request)
        try:
            await _written(response, first)
            async for piece in pieces:
                await _written(response, piece)
            await response.write_eof()
        except Exception as error:
            if not isinstance(error, ConnectionError):
                log.warning("%s %s broke off: %s", request.method, request.path, type(error).__name__)
            cut(request)
            raise ConnectionResetError("the content broke off") from error
    return response


async def _written(response: web.StreamResponse, piece: bytes) -> None:
    try:
        async with asyncio.timeout(SLOW):
            await response.write(piece)
    except TimeoutError:
        raise ConnectionResetError("the reader takes nothing") from None
