"""Requests to the history's API, through the API server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import quote

from fournos.client.errors import MissingError, NoHistoryError
from fournos.history.records import Run
from fournos.kube.errors import NoSuchResourceError, NotFoundError
from fournos.kube.resource import Obj

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
