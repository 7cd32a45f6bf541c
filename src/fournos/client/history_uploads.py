"""Files of results and artifacts that are sent to the history."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from io import BufferedReader
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from fournos.client.errors import typed
from fournos.client.history_requests import PREFIX, HistoryRequests, missing, parsed
from fournos.client.retries import PATIENCE, repeated

if TYPE_CHECKING:
    from fournos.history.api.results import Received
    from fournos.history.artifacts.rules import Artifact

_UPLOAD: Final = 3600.0
"""Seconds that one file may take."""
_PATIENCE_IN_TASK: Final = 900.0
"""Seconds after which a file that cannot be stored for now is an error, within a task.

It would fail its job, and the history may be away for some minutes.  Elsewhere it is PATIENCE.
"""
_PAUSE: Final = 1.0


class AsyncUploads(HistoryRequests):
    """The part of `AsyncHistory` for uploads.

    An upload that fails for now is repeated for some time; a file that arrives twice is stored once.
    """

    @typed
    async def push_results(
        self, content: bytes, *, filename: str = "", name: str = "", namespace: str | None = None
    ) -> Received:
        """Stores a file of results of a run: all of its records, or none.

        Without a name the run is that of the calling pod.  Pushing a file again changes nothing.  Raises
        RefusedError, which names every problem.
        """
        from fournos.history.api.results import Received

        where = f"{self._path(name, namespace)}/results" if name else "/own/run/results"
        path = f"{PREFIX}{where}?{urlencode({'name': filename})}"

        async def send() -> bytes:
            return await self._api.raw("POST", path, content=content, seconds=_UPLOAD)

        return parsed(Received, await _sent(send, in_task=not name))

    @typed
    async def push_artifact(
        self, file: BufferedReader, path: str, *, name: str = "", namespace: str | None = None
    ) -> Artifact:
        """Stores a file as an artifact of a run; without a name of the calling pod's run.

        `path` is its path among the artifacts.  A file that is stored already is not stored again.
        """
        from fournos.history.artifacts.rules import Artifact

        digest = await asyncio.to_thread(lambda: hashlib.file_digest(file, "sha256").hexdigest())
        where = f"{self._path(name, namespace)}/artifacts" if name else "/own/run/artifacts"
        url = f"{PREFIX}{where}/{quote(path)}"
        headers = {"X-Content-SHA256": digest, "Content-Length": str(file.tell())}

        async def send() -> bytes:
            return await self._api.raw("PUT", url, content=file, headers=headers, seconds=_UPLOAD)

        return parsed(Artifact, await _sent(send, in_task=not name))


async def _sent(send: Callable[[], Awaitable[bytes]], *, in_task: bool) -> bytes:
    async def sent() -> bytes:
        with missing():
            return await send()

    return await repeated(sent, seconds=_PATIENCE_IN_TASK if in_task else PATIENCE, pause=_PAUSE)
