"""Requests to the history's API, through the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, Protocol, TypeVar
from urllib.parse import quote

from fournos.client.errors import MissingError, NoHistoryError
from fournos.history.records import Run
from fournos.kube.errors import ConnectionLostError, NoSuchResourceError, NotFoundError, ServerError
from fournos.kube.limiter import Backoff
from fournos.kube.resource import Obj

T = TypeVar("T")
PREFIX: Final = "/apis/history.fournos.dev/v1"


class Server(Protocol):
    """What of `fournos.kube.client.Client` is needed here."""

    async def raw(
        self,
        method: str,
        path: str,
        body: Obj | None = None,
        *,
        content: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> bytes: ...

    async def raw_stream(self, path: str) -> AsyncGenerator[bytes, None]: ...


class Requests:
    """Base of the parts of `AsyncHistory`."""

    def __init__(self, api: Server, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        """The namespace of all methods, unless they are given another one."""

    def _path(self, name: str, namespace: str | None) -> str:
        where = quote(namespace or self.namespace, safe="")
        return f"/namespaces/{where}/runs/{quote(name, safe='')}"

    def _of(self, run: Run) -> str:
        return self._path(run.identity.uid, run.identity.namespace)

    async def _send(self, method: str, path: str, body: Obj | None = None) -> bytes:
        with missing():
            return await self._api.raw(method, PREFIX + path, body)

    async def _get(self, path: str, kind: Any) -> Any:
        from fournos.history.api.wire import adapter

        with missing():
            return adapter(kind).validate_json(await self._api.raw("GET", PREFIX + path))


@contextmanager
def missing() -> Iterator[None]:
    """Raises MissingError for what the history does not have, and NoHistoryError if there is none."""
    try:
        yield
    except NotFoundError as error:
        raise MissingError(error.message, fix="see what there is: fournos list --all-time") from error
    except NoSuchResourceError as error:
        raise NoHistoryError(
            "the cluster has no history", fix="install deploy/history, or ask an administrator for it"
        ) from error


async def repeated(call: Callable[[], Awaitable[T]], *, seconds: float, pause: float = 1.0) -> T:
    """Repeats a request that fails for now, with growing pauses; after these seconds its error is raised."""
    now = asyncio.get_running_loop().time
    until = now() + seconds
    backoff = Backoff(base=pause)
    while True:
        try:
            return await call()
        except (ServerError, ConnectionLostError) as error:
            wait = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
            if now() + wait > until:
                raise
        await asyncio.sleep(wait)
