"""The history: runs that are over or under way, read through the API server with the client's own rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from fournos.client.errors import MissingError, NotInstalledError, typed, typed_iterator
from fournos.history.records import Document, Page, Run
from fournos.kube.client import Client as HttpClient
from fournos.kube.errors import NoSuchResourceError, NotFoundError

if TYPE_CHECKING:
    from fournos.history.api.models import RunDetail

PREFIX: Final = "/apis/history.fournos.dev/v1"
_PAGE: Final = 200


class AsyncHistory:
    """Reads the history of a cluster.  All methods raise NotInstalledError if it has none."""

    def __init__(self, api: HttpClient, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        """The namespace of all methods, unless they are given another one."""

    @typed_iterator
    async def runs(
        self,
        *,
        everywhere: bool = False,
        namespace: str | None = None,
        kind: str | Sequence[str] = (),
        phase: str | Sequence[str] = (),
        owner: str | Sequence[str] = (),
        cluster: str | Sequence[str] = (),
        pipeline: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        name: str = "",
        text: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Run]:
        """Yields the matching runs, newest first, page by page; `limit` of them at most.

        A filter with several values matches any of them; `text` is part of the name.  `everywhere` means all
        namespaces that the caller may read.
        """
        query: list[tuple[str, str]] = []
        for parameter, values in (
            ("kind", kind),
            ("phase", phase),
            ("owner", owner),
            ("cluster", cluster),
            ("pipeline", pipeline),
        ):
            query += [(parameter, one) for one in ([values] if isinstance(values, str) else values)]
        query += [("label", f"{one}={value}") for one, value in (labels or {}).items()]
        query += [(parameter, value) for parameter, value in (("name", name), ("text", text)) if value]
        query += [(one, when.isoformat()) for one, when in (("since", since), ("until", until)) if when]
        where = "" if everywhere else f"/namespaces/{quote(namespace or self.namespace, safe='')}"
        left, cursor = limit, ""
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            asked = [*query, ("limit", str(size)), *([("cursor", cursor)] if cursor else [])]
            page: Page = await self._get(f"{where}/runs?{urlencode(asked)}", Page)
            for run in page.runs:
                yield run
            left = None if left is None else left - len(page.runs)
            cursor = page.cursor
            if not cursor:
                return

    @typed
    async def run(self, name: str, *, kind: str = "", namespace: str | None = None) -> RunDetail:
        """Returns a run by its UID, or the newest of its name, with its waiting ledger.

        Raises MissingError.
        """
        from fournos.history.api.models import RunDetail

        suffix = f"?{urlencode({'kind': kind})}" if kind else ""
        found: RunDetail = await self._get(self._path(name, namespace) + suffix, RunDetail)
        return found

    @typed
    async def document(self, run: Run, document: Document) -> Any:
        """Returns a document of a run, such as the whole object as last seen.  Raises MissingError."""
        path = self._path(run.identity.uid, run.identity.namespace)
        return await self._get(f"{path}/documents/{document.value}", Any)

    @typed
    async def keep(self, run: Run, *, reason: str = "") -> None:
        """Marks a run: it does not expire."""
        path = self._path(run.identity.uid, run.identity.namespace)
        await self._api.raw("PUT", f"{PREFIX}{path}/keep", {"reason": reason})

    @typed
    async def release(self, run: Run) -> None:
        """Takes the mark of `keep` away."""
        await self._api.raw("DELETE", f"{PREFIX}{self._path(run.identity.uid, run.identity.namespace)}/keep")

    @typed
    async def delete(self, run: Run) -> None:
        """Deletes a run with its documents, logs, artifacts and results."""
        await self._api.raw("DELETE", PREFIX + self._path(run.identity.uid, run.identity.namespace))

    def _path(self, name: str, namespace: str | None) -> str:
        where = quote(namespace or self.namespace, safe="")
        return f"/namespaces/{where}/runs/{quote(name, safe='')}"

    async def _get(self, path: str, kind: Any) -> Any:
        from fournos.history.api.wire import adapter

        try:
            return adapter(kind).validate_json(await self._api.raw("GET", PREFIX + path))
        except NotFoundError as error:
            raise MissingError(error.message, fix="see what there is: fournos list --all-time") from error
        except NoSuchResourceError as error:
            raise NotInstalledError(
                error, fix="there is no history here: install deploy/history, or ask an administrator"
            ) from error
