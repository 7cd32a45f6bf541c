"""The HTTPS server of the API, behind the Kubernetes API server: rights, routes, errors, entity tags."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web
from pydantic import ValidationError

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.certificates import ServingCertificate
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.listening import listening
from fournos.history.api.identity import FrontProxy, HistoryAuthorizer, own_job
from fournos.history.api.routes import (
    LARGEST,
    ApiCall,
    ApiError,
    BadRequestError,
    ForbiddenError,
    InsufficientStorageError,
    InvalidError,
    NotFoundError,
    RequestTimeoutError,
    Route,
    TooManyRequestsError,
    UnavailableError,
    read,
)
from fournos.history.blobs import BlobsUnavailableError
from fournos.history.records import NO_RUNS, adapter, body
from fournos.history.store.database import (
    NamespaceFullError,
    StoreQueryError,
    StoreUnavailableError,
    StoreUsageError,
)

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

log = logging.getLogger(__name__)
audit = logging.getLogger(f"{__name__}.audit")

PREFIX: Final = "/apis/history.fournos.dev/v1"
_WRITES: Final = 16
"""Writes at once: at most that many bodies are in memory, of LARGEST bytes each."""
_WRITES_OF_EACH: Final = 4
"""Those of one namespace: slow ones must leave room for others."""
_SLOW: Final = 60.0
"""Seconds that a body may take, ..."""
_RATE: Final = 500_000
"""... beside a second for each so many bytes of it."""
_CLOSING: Final = 5.0
"""Seconds that requests under way have to finish at the end."""
_FIELDS: Final = 500
"""Fields of a head: an API server sends one for each group of a person."""
_STORE_AWAY: Final = (
    "the store of the history does not answer, its API does; the history's log has the reason"
)
_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache"}
_OFFERED: Final = {
    ("runs", "run", "Run"): ("get",),
    ("estimates", "estimate", "Estimate"): ("get",),
    ("usage", "usage", "Usage"): (),
}
"""Plural, singular and kind of each resource, and the verbs in discovery.

Neither `list`, `watch` nor `delete`: controllers of Kubernetes enumerate by them, and no answer is a List.
The one of namespaces lists and deletes what offers both in a namespace that is deleted: without a List no
namespace could be deleted, with one it would delete the history.  Rights do not depend on discovery.
"""
DISCOVERY: Final = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "history.fournos.dev/v1",
    "resources": [
        {"name": plural, "singularName": singular, "namespaced": True, "kind": kind, "verbs": [*verbs]}
        for (plural, singular, kind), verbs in _OFFERED.items()
    ],
}
"""The resources of the group, for an API server that forwards requests."""


class HistoryServer:
    """Serves the routes.  `run` serves until cancelled, beginning with the first certificate."""

    def __init__(
        self,
        routes: Iterable[Route],
        service: HistoryService,
        api: Api,
        front_proxy: FrontProxy,
        authorizer: HistoryAuthorizer,
        *,
        certificate: ServingCertificate | None = None,
    ) -> None:
        """`service` is handed to the handlers.  `api` reads the owners of a pod that sends to its own job."""
        self._routes = tuple(routes)
        self._service = service
        self._api = api
        self._front_proxy = front_proxy
        self._authorizer = authorizer
        self._writing = Counter[str]()
        self.certificate = certificate or ServingCertificate()

    def app(self) -> web.Application:
        """The application, for a server or for a test."""
        app = web.Application(client_max_size=LARGEST, middlewares=[self._errors])
        for route in self._routes:
            path = PREFIX + route.path.replace("{path}", "{path:.+}")
            app.router.add_route(route.method, path, partial(self._answer, route))
        app.router.add_get(PREFIX, _discovery)
        return app

    def trust(self, authority: bytes, front_proxy: FrontProxy) -> None:
        """Takes requests of an API server with a certificate of this authority (PEM), from now on."""
        self.certificate.trust(authority, required=False)
        self._front_proxy = front_proxy

    async def run(self, *, port: int, host: str = "") -> None:
        """Serves until cancelled.  Raises OSError if the port is in use."""
        context = await self.certificate.context()
        async with listening(self.app(), host, port, closing=_CLOSING, headers=_FIELDS, tls=context):
            await asyncio.Event().wait()

    async def _answer(self, route: Route, request: web.Request) -> web.StreamResponse:
        user = self._front_proxy.user(request)
        if route.method == "GET":
            return await self._handled(route, await self._call(route, user, request), request)
        outcome = "failed"
        try:
            call = await self._call(route, user, request)
            async with self._write(request, call.namespace):
                response = await self._handled(route, call, request)
            outcome = "done"
            return response
        except ApiError as error:
            outcome = f"{error.status} {error.reason}"
            raise
        finally:
            # Quoted: names may hold what a terminal would obey.
            audit.info(
                "%s by %r: %s %r: %s", route.name, user.name, request.method, request.raw_path, outcome
            )

    @asynccontextmanager
    async def _write(self, request: web.Request, namespace: str) -> AsyncIterator[None]:
        """Bounds the memory and the time of a request with a body.

        Raises TooManyRequestsError and RequestTimeoutError.
        """
        if self._writing.total() >= _WRITES or self._writing[namespace] >= _WRITES_OF_EACH:
            raise TooManyRequestsError(
                "the history receives as much as it can now; send it again later", retry_after=2
            )
        self._writing[namespace] += 1
        try:
            async with asyncio.timeout(_SLOW + (request.content_length or LARGEST) / _RATE) as timer:
                yield
        except TimeoutError:
            if timer.expired():
                raise RequestTimeoutError("the request did not come in time; send it again") from None
            raise
        finally:
            self._writing[namespace] -= 1
            self._writing += Counter()  # forgets the namespaces without any

    async def _call(self, route: Route, user: User, request: web.Request) -> ApiCall:
        """Returns the request with the caller's rights, before its body is read."""
        path = dict(request.match_info)
        namespace = path.pop("namespace", "")
        parameters = read(route.parameters, request.query)
        job: Obj | None = None
        details = NO_RUNS
        if route.own:
            job = await own_job(user, self._api)
            namespace, scope = job["metadata"]["namespace"], NO_RUNS
        else:
            scope = await self._authorizer.scope(user, route.access, namespace)
            if route.details is not None:
                with contextlib.suppress(ForbiddenError):
                    details = await self._authorizer.scope(user, route.details, namespace)
        return ApiCall(user, scope, parameters, namespace, path, None, request, job, details)

    async def _handled(self, route: Route, call: ApiCall, request: web.Request) -> web.StreamResponse:
        if route.body is not None and not route.stream:
            call = replace(call, body=await _body(request, route.body))
        result = await route.handler(self._service, call)
        if isinstance(result, web.StreamResponse):
            return result
        if route.response is None:
            return web.Response(status=204, headers=_HEADERS)
        return _response(request, body(result, route.response))

    @web.middleware
    async def _errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return _refused(error)
        except web.HTTPNotFound:
            return _refused(NotFoundError(f"the history has no path {request.path}", name=request.path))
        except web.HTTPRequestEntityTooLarge:
            return _refused(BadRequestError(f"the request is larger than {LARGEST} bytes"))
        except web.HTTPException:
            raise
        except StoreQueryError as error:
            return _refused(BadRequestError(str(error)))
        except NamespaceFullError as error:
            return _refused(InsufficientStorageError(str(error), retry_after=60))
        except (StoreUnavailableError, StoreUsageError, BlobsUnavailableError) as error:
            # The message of a database driver may contain its address and user; that of the blobs does not.
            shown = error if isinstance(error, BlobsUnavailableError) else type(error).__name__
            log.warning("the store of the history does not answer: %s", shown)
            return _refused(UnavailableError(_STORE_AWAY, retry_after=5))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.raw_path)
            return _refused(ApiError("the request failed; see the log of the history"))


def _response(request: web.Request, content: bytes) -> web.Response:
    # The same content has the same tag on every replica.
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**_HEADERS, "ETag": tag}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    return web.Response(body=content, content_type="application/json", headers=headers)


def _refused(error: ApiError) -> web.Response:
    headers = dict(_HEADERS)
    if error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    return web.Response(
        status=error.status, body=orjson.dumps(error.body()), content_type="application/json", headers=headers
    )


async def _body(request: web.Request, kind: Any) -> Any:
    try:
        return adapter(kind).validate_json(await request.read() or b"{}")
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(one) for one in found['loc']) or 'body'}: {found['msg']}"
            for found in error.errors()
        ]
        raise InvalidError("; ".join(problems[:50])) from None


async def _discovery(_: web.Request) -> web.Response:
    return web.json_response(DISCOVERY)
