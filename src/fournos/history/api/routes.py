"""What all routes share: their declaration, the parameters of requests, and errors.

Errors are written as a Kubernetes Status, which every client already understands.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

from aiohttp import web
from multidict import MultiMapping
from pydantic import ValidationError

from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.listening import cut
from fournos.history.records import NO_RUNS, Parameters, Scope


class ApiError(Exception):
    """An error response: its HTTP status, its reason and a message for people."""

    status: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, name: str = "", retry_after: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.retry_after = retry_after
        """Seconds; 0 for none."""

    def body(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status,
        }
        if self.name:
            status["details"] = {"name": self.name, "group": GROUP}
        return status


class BadRequestError(ApiError):
    status = 400
    reason = "BadRequest"


class UnauthorizedError(ApiError):
    """The caller is not known."""

    status = 401
    reason = "Unauthorized"


class ForbiddenError(ApiError):
    """The caller is known and lacks the right."""

    status = 403
    reason = "Forbidden"


class NotFoundError(ApiError):
    """Something is not there.  It is always named: a 404 without a name means that there is no history."""

    status = 404
    reason = "NotFound"

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message, name=name)


class RequestTimeoutError(ApiError):
    status = 408
    reason = "Timeout"


class ConflictError(ApiError):
    status = 409
    reason = "Conflict"


class InvalidError(ApiError):
    """The request is understood, and its content is refused."""

    status = 422
    reason = "Invalid"


class TooManyRequestsError(ApiError):
    status = 429
    reason = "TooManyRequests"


class UnavailableError(ApiError):
    """The database or the API server does not answer."""

    status = 503
    reason = "ServiceUnavailable"


class InsufficientStorageError(ApiError):
    """The volume is almost full."""

    status = 507
    reason = "InsufficientStorage"


class NoParameters(Parameters):
    """A route without parameters."""


P = TypeVar("P", bound=Parameters)


def read(model: type[P], given: MultiMapping[str]) -> P:
    """Reads the parameters of a request.  Raises BadRequestError, which names each problem."""
    values: dict[str, Any] = {}
    several = {info.alias or name for name, info in model.model_fields.items() if _is_tuple(info.annotation)}
    for name in set(given.keys()):
        texts = given.getall(name)
        if name in several:
            values[name] = tuple(texts)
        elif len(texts) > 1:
            raise BadRequestError(f"{name}: given {len(texts)} times, and it takes one value")
        else:
            values[name] = texts[0]
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(one) for one in problem['loc'])}: {_message(problem)}"
            for problem in error.errors()
        ]
        raise BadRequestError("; ".join(problems[:20])) from None


def _is_tuple(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is tuple


def _message(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "unknown parameter"
    return str(problem["msg"]).removeprefix("Value error, ")


log = logging.getLogger(__name__)

GROUP: Final = "history.fournos.dev"

LARGEST: Final = 8 * 2**20
"""Maximum bytes of a request whose body is read as a whole."""
SLOW: Final = 60.0
"""Seconds for which a reader may take nothing of an answer."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a request does."""

    verb: str
    resource: str = "runs"
    """With its subresource, such as runs/logs."""

    def attributes(self, namespace: str) -> dict[str, str]:
        """The resourceAttributes of a SubjectAccessReview; `namespace` "" means all."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {"group": GROUP, "version": "v1", "verb": self.verb, "resource": resource}
        if namespace:
            attributes["namespace"] = namespace
        if subresource:
            attributes["subresource"] = subresource
        return attributes


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
    details: Scope = NO_RUNS
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


def everywhere_and_in_one(
    path: str,
    name: str,
    access: Access,
    handler: Handler,
    response: Any,
    parameters: type[Parameters],
    details: Access | None = None,
) -> tuple[Route, Route]:
    """Returns the route over all namespaces in which the caller has the right, and the one of a namespace."""
    in_one = re.sub("(?=[A-Z])", "Namespaced", name, count=1)  # listRuns, listNamespacedRuns
    return (
        Route("GET", path, name, access, handler, response, parameters, details=details),
        Route(
            "GET",
            "/namespaces/{namespace}" + path,
            in_one,
            access,
            handler,
            response,
            parameters,
            details=details,
        ),
    )


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
