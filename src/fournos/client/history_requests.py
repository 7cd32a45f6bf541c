"""Requests to the history's API, through the API server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeVar, cast
from urllib.parse import quote

from fournos.client.errors import (
    HistoryBusyError,
    HistoryFullError,
    HistoryUnavailableError,
    MissingError,
    NoHistoryError,
)
from fournos.client.retries import PATIENCE, repeated
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Paths
from fournos.engine.kube.errors import ConnectionLostError, NoSuchResourceError, NotFoundError, ServerError
from fournos.engine.kube.resource import Obj
from fournos.history.records import Run

T = TypeVar("T")
PREFIX: Final = "/apis/history.fournos.dev/v1"
_UNAVAILABLE: Final = 503
_MEANT: Final = {429: HistoryBusyError, _UNAVAILABLE: HistoryUnavailableError, 507: HistoryFullError}


class HistoryRequests:
    """Base of the parts of `AsyncHistory`."""

    def __init__(
        self, api: Api | Paths, namespace: str, *, patience: float = PATIENCE, all_clusters: bool = False
    ) -> None:
        """`api` is a client, which takes paths, too.

        `all_clusters`: reads reach the runs of other clusters in the same database, too.
        """
        self._api = cast(Paths, api)
        self._patience = patience
        self._all_clusters = all_clusters
        self.namespace = namespace
        """The namespace of all methods, unless they are given another one."""

    def _where(self, namespace: str | None, *, everywhere: bool = False) -> str:
        """Returns the path of a namespace, or of all of them."""
        return "" if everywhere else f"/namespaces/{quote(namespace or self.namespace, safe='')}"

    def _path(self, name: str, namespace: str | None) -> str:
        return f"{self._where(namespace)}/runs/{quote(name, safe='')}"

    def _of(self, run: Run) -> str:
        return self._path(run.identity.uid, run.identity.namespace)

    async def _send(self, method: str, path: str, body: Obj | None = None) -> bytes:
        with missing():
            return await self._api.raw(method, PREFIX + path, body)

    async def _get(self, path: str, kind: type[T]) -> T:
        where = self._reached(path)
        return parsed(kind, await self._read(lambda: self._api.raw("GET", where)))

    def _reached(self, path: str) -> str:
        """Returns the path of a read of stored runs, or of estimates: these are of this cluster alone."""
        if not self._all_clusters or "/estimates" in path:
            return PREFIX + path
        return f"{PREFIX}{path}{'&' if '?' in path else '?'}allClusters=true"

    async def _read(self, call: Callable[[], Awaitable[T]]) -> T:
        """Sends a request that only reads; again while the history asks for another try (Retry-After)."""
        with missing():
            return await repeated(call, seconds=self._patience, when=_asks_for_another_try)


def parsed(kind: type[T], answer: bytes) -> T:
    """Returns the value that an answer has as JSON."""
    from fournos.history.api.wire import adapter

    value: T = adapter(cast(Hashable, kind)).validate_json(answer)
    return value


def times(**given: datetime | None) -> list[tuple[str, str]]:
    """Returns the parameters of times that are given."""
    return [(name, time.isoformat()) for name, time in given.items() if time]


@contextmanager
def missing() -> Iterator[None]:
    """Raises MissingError for what the history does not have, and NoHistoryError if there is none.

    Raises HistoryUnavailableError if its API or its store does not answer, is busy, or is full.
    """
    try:
        yield
    except NotFoundError as error:
        raise MissingError(error.message, fix="see what there is: fournos list --all-time") from error
    except NoSuchResourceError as error:
        raise NoHistoryError(
            "the cluster has no history", fix="install deploy/history, or ask an administrator for it"
        ) from error
    except ServerError as error:
        made = _MEANT.get(error.status)
        # The history answers with a Status.  Plain text is of the API server that forwards to it.
        if made is None or not (error.reason or error.status == _UNAVAILABLE):
            raise
        where = "" if error.reason else "the API of the history does not answer: "
        raise made(
            f"{where}{error.message}",
            status=error.status,
            reason=error.reason or "ServiceUnavailable",
            retry_after=error.retry_after,
        ) from error


def _asks_for_another_try(error: ServerError | ConnectionLostError) -> bool:
    return isinstance(error, ServerError) and error.status == _UNAVAILABLE and bool(error.retry_after)
