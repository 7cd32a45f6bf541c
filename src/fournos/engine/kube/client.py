"""A client of an API server over HTTP: the implementation of `Api` in production."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from copy import copy
from types import TracebackType
from typing import Any, BinaryIO, Final

import orjson
from aiohttp.abc import AbstractResolver

from fournos import __version__
from fournos.engine.kube.api import Listing, WatchEvent
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import ConnectionLostError, GoneError, TooLongError
from fournos.engine.kube.formats import lines_of, lines_of_text, loads, pieces, text_lines
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.kube.transport import ApiRequest, Guard, Observer, Transport

# --- raw paths --------------------------------------------------------------------------------------
# Requests to a path of an API server, whatever it serves there.


class Paths:
    """The part of `Client` for paths."""

    _transport: Transport

    async def raw_get(self, path: str) -> bytes:
        """Returns the body at a path such as "/readyz"; raises the errors of `get`."""
        return await self._transport.send(ApiRequest("get", "", "GET", path))

    async def raw(
        self,
        method: str,
        path: str,
        body: Obj | None = None,
        *,
        content: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> bytes:
        """Sends a request to a path, its query included; returns the body.  Raises the errors of `Api`.

        `content` is sent as it is, a file in pieces; `seconds` is the limit of the whole request.
        """
        request = ApiRequest(
            method.lower(),
            "",
            method,
            path,
            body=body,
            content=content,
            headers=headers or {},
            seconds=seconds,
        )
        return await self._transport.send(request)

    async def raw_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """Returns the body at a path in pieces, after an await, which raises the errors of `get`."""
        return pieces(await self._transport.stream(ApiRequest("get", "", "GET", path)))


WATCH_SECONDS: Final = (300, 600)
"""Range of seconds for the duration of a watch, random so that watches do not renew at the same time."""

_OTHER_QPS: Final = 50.0
_OTHER_BURST: Final = 100
"""The rate limit of a client with another identity."""
_SMALLER: Final = 4

_LOG_BUFFER: Final = 2**14
"""Bytes that are read ahead of a log: many are read at once, each by a slow reader."""
_POD: Final = Resource("", "v1", "Pod", "pods")


class Client(Paths):
    """A client of one API server with one identity.  Use `async with`, or `close()`; later requests fail.

    It sends at most `qps` requests per second over time and `burst` at once.  Every request ends after
    `timeout` seconds.  `guard` runs immediately before a write is sent and may raise `NotLeaderError`.  A 429
    response with Retry-After delays all requests of this client for that time.  A response or event of more
    than `max_bytes` bytes raises TooLongError.  `resolver` resolves the server's name.  Logs contain method,
    path and status, never a body.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        name: str = "local",
        qps: float = 200.0,
        burst: int = 400,
        timeout: float = 30.0,
        guard: Guard | None = None,
        observer: Observer | None = None,
        user_agent: str = f"fournos/{__version__}",
        max_bytes: int | None = None,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self.name = name
        self._credentials = credentials
        self._max_bytes = max_bytes
        self._transport = Transport(
            credentials,
            qps=qps,
            burst=burst,
            timeout=timeout,
            guard=guard,
            observer=observer,
            user_agent=user_agent,
            max_bytes=max_bytes,
            resolver=resolver,
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    def bearing(self, token: str) -> Client:
        """Returns a client of the same API server with another identity and a rate limit of its own.

        It shares the connections, but no credentials, and ends when this client is closed.
        """
        return self._with(self._credentials.of(FixedIdentity(Proof(token))))

    def impersonating(self, headers: tuple[tuple[str, str], ...]) -> Client:
        """Returns one that acts as the user of these headers, by a right of ours; else as `bearing`."""
        return self._with(self._credentials.impersonating(headers))

    def _with(self, credentials: Credentials) -> Client:
        client = copy(self)
        client._credentials = credentials
        client._transport = self._transport.of(credentials, qps=_OTHER_QPS, burst=_OTHER_BURST)
        return client

    # --- reading -------------------------------------------------------------------------------------

    async def get(self, resource: Resource, key: Key) -> Obj:
        return await self._json(ApiRequest("get", str(resource), "GET", _path(resource, key)))

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        page_size: int = 500,
        keep: Callable[[Obj], Obj] | None = None,
    ) -> Listing:
        """Returns all pages at one resourceVersion; in one piece if the continue token expires meanwhile.

        With `max_bytes`, a page that is too long is requested again with fewer objects, and an expired token
        raises GoneError.
        """
        selectors = {"labelSelector": selector, "fieldSelector": fields}
        query = {name: text for name, text in selectors.items() if text}
        try:
            return await self._list(resource, namespace, query, page_size, keep)
        except _PagesExpiredError:
            if self._max_bytes is not None:
                raise
            return await self._list(resource, namespace, query, 0, keep)

    async def _list(
        self,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        page_size: int,
        keep: Callable[[Obj], Obj] | None,
    ) -> Listing:
        query = {**query, **({"limit": str(page_size)} if page_size else {})}
        items: list[Obj] = []
        while True:
            request = ApiRequest(
                "list", str(resource), "GET", resource.path(namespace=namespace), dict(query)
            )
            try:
                page = await self._json(request)
            except GoneError as error:
                if "continue" in query:
                    raise _PagesExpiredError(error.message) from error
                raise
            except TooLongError:
                if int(query.get("limit", 1)) == 1:
                    raise
                query["limit"] = str(max(1, int(query["limit"]) // _SMALLER))
                continue
            page_items, token, version = _read_page(request, page)
            for item in page_items:
                # The API server omits both in the items of built-in types.
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
                items.append(keep(item) if keep else item)
            if token:
                query["continue"] = token
            elif resource.by_offset and page_items and len(page_items) == int(query.get("limit", 0)):
                query["offset"] = str(len(items))
            else:
                return Listing(items, version)
            del page, page_items  # freed before the next request, so that only one page is in memory

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        resource_version: str,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yields a BOOKMARK with the requested version once the watch is open, then as `Api.watch`."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311 - spreads load
        }
        selectors = {"labelSelector": selector, "fieldSelector": fields}
        query |= {name: text for name, text in selectors.items() if text}
        request = ApiRequest("watch", str(resource), "GET", resource.path(namespace=namespace), query)
        async with await self._transport.stream(request) as response:
            yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": resource_version}})
            async with aclosing(lines_of(response, limit=self._max_bytes)) as lines:
                async for line in lines:
                    try:
                        event = loads(line)
                        parsed = WatchEvent(event["type"], event["object"])
                    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
                        raise ConnectionLostError(f"watch of {resource}: garbled event") from error
                    yield parsed

    async def logs(
        self,
        pod: Key,
        *,
        container: str | None = None,
        tail: int | None = None,
        limit_bytes: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[str]:
        """Returns the lines after an await, which raises errors; a cut stream raises ConnectionLostError."""
        query = {"container": container} if container else {}
        if tail is not None:
            query["tailLines"] = str(tail)
        if limit_bytes is not None:
            query["limitBytes"] = str(limit_bytes)
        if follow:
            query["follow"] = "true"
        request = ApiRequest("logs", "pods", "GET", _path(_POD, pod, "log"), query)
        if follow:
            return text_lines(await self._transport.stream(request))
        return lines_of_text(await self._transport.send(request))

    async def log_stream(self, pod: Key, *, container: str) -> AsyncGenerator[bytes, None]:
        """Returns what a container has printed, in pieces, after an await, which raises errors."""
        query = {"container": container}
        request = ApiRequest("logs", "pods", "GET", _path(_POD, pod, "log"), query, buffer=_LOG_BUFFER)
        return pieces(await self._transport.stream(request))

    async def server_version(self) -> str:
        """Returns the version in the API server's form, such as "v1.34.4"."""
        request = ApiRequest("get", "", "GET", "/version")
        version = (await self._json(request)).get("gitVersion")
        if not isinstance(version, str):
            raise ConnectionLostError(f"{request}: the answer is not an API server's")
        return version

    # --- writing -------------------------------------------------------------------------------------

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        path = resource.path(namespace=obj["metadata"].get("namespace"))
        query = {"dryRun": "All", "fieldValidation": "Strict"} if dry_run else {}
        return await self._json(ApiRequest("create", str(resource), "POST", path, query, body=obj))

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        path = _path(resource, key, subresource)
        kind = "application/merge-patch+json"
        return await self._json(
            ApiRequest("patch", str(resource), "PATCH", path, body=body, content_type=kind)
        )

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        request = ApiRequest("delete", str(resource), "DELETE", _path(resource, key), body=options)
        await self._transport.send(request)

    async def _json(self, request: ApiRequest) -> dict[str, Any]:
        body = await self._transport.send(request)
        try:
            parsed = loads(body)
        except orjson.JSONDecodeError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ConnectionLostError(f"{request}: the answer is not an API server's")
        return parsed


class _PagesExpiredError(GoneError):
    """A continue token expired between two pages."""


def _path(resource: Resource, key: Key, subresource: str | None = None) -> str:
    return resource.path(namespace=key.namespace, name=key.name, subresource=subresource)


def _read_page(request: ApiRequest, page: dict[str, Any]) -> tuple[list[dict[str, Any]], str, str]:
    """Returns the items, the token of the next page and the resourceVersion."""
    items, meta = page.get("items") or [], page.get("metadata") or {}
    if not (isinstance(items, list) and all(isinstance(one, dict) for one in items)):
        raise ConnectionLostError(f"{request}: the answer is not an API server's: its items are not objects")
    token = meta.get("continue") if isinstance(meta, dict) else None
    if token and not (isinstance(token, str) and items):
        raise ConnectionLostError(f"{request}: the answer is not an API server's: a page without objects")
    return items, token or "", str(meta.get("resourceVersion") or "") if isinstance(meta, dict) else ""
