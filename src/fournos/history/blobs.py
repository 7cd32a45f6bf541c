"""Blobs of the history, such as logs and artifacts: bytes under a key, in a directory or in an S3 bucket.

Both are stores of the library obstore, with the same keys: a plain copy of one is the other.  The database
names each blob of a run before it is written (`BlobRows.claim_blob`), so that none is left over.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, S3Store

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

CHUNK: Final = 5 * 2**20
"""Bytes of a blob that are in memory at once; S3 takes no smaller parts."""
_PROBE: Final = "fournos-probe"
_TIMEOUT: Final = timedelta(seconds=60)
_CONNECT: Final = timedelta(seconds=5)
_RETRIES: Final = 3
_RETRY: Final = timedelta(seconds=20)
"""Who calls tries again for longer, with a backoff, and shows it in the log."""
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>|\(code: (\w{1,64})\)")
_NO_BUCKET: Final = "NoSuchBucket"
_LASTING: Final = (PermissionDeniedError, UnauthenticatedError, FileNotFoundError)
"""Errors of a bucket that do not pass by themselves."""


_HINTS: Final = {
    "InvalidCertificate": "its certificate is not trusted: set FOURNOS_HISTORY_S3_CA_FILE",
    "/latest/api/token": "no credentials are found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
}
"""Words of an error without an answer of S3 → what to do."""


class BlobsUsageError(Exception):
    """The store of blobs cannot be used as it is set; only a person can change that."""


class BlobsUnavailableError(OSError):
    """The store of blobs does not answer as it should.  The same call may succeed later."""


class _Pieces:
    """The content for the library, which goes on to wait for a piece after its write was cancelled."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        self._content = content
        self._next: asyncio.Task[bytes] | None = None

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        self._next = asyncio.create_task(self._read())
        return await self._next

    async def _read(self) -> bytes:
        async for piece in self._content:
            return piece
        raise StopAsyncIteration

    async def stop(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.cancel()
            await asyncio.wait([self._next])


class Blobs:
    """Bytes by key.  A blob is written as a whole, read, and deleted.

    Every method raises BlobsUnavailableError if the store does not answer or has no space.
    """

    def __init__(self, place: str, store: LocalStore | S3Store) -> None:
        """`place`: the directory or the URL of the bucket, for messages."""
        self._place = place
        self._store = store

    async def write(self, key: str, content: bytes | AsyncIterator[bytes]) -> None:
        """Stores the whole blob or nothing, also of content that raises.  A blob of this key is replaced."""
        with self._translated("write to"):
            if isinstance(content, bytes):
                await self._store.put_async(key, content, use_multipart=False)
                return
            pieces = _Pieces(content)
            try:
                await self._store.put_async(key, pieces, chunk_size=CHUNK, max_concurrency=1)
            finally:
                await pieces.stop()

    async def read(self, key: str) -> bytes | None:
        """Returns the blob; None if there is none of this key."""
        chunks = await self.chunks(key)
        return None if chunks is None else b"".join([chunk async for chunk in chunks])

    async def chunks(self, key: str) -> AsyncGenerator[bytes, None] | None:
        """Returns the blob in pieces of about CHUNK; None if there is none of this key."""
        with self._translated("read from"):
            try:
                found = await self._store.get_async(key)
            except FileNotFoundError as error:
                if _NO_BUCKET in str(error):  # it must not look like a blob that is gone
                    raise
                return None

        async def pieces() -> AsyncGenerator[bytes, None]:
            with self._translated("read from"):
                async for piece in found.stream(min_chunk_size=CHUNK):
                    yield bytes(piece)

        return pieces()

    async def delete(self, keys: Sequence[str]) -> None:
        """Deletes the blobs; keys without one are no error."""
        with self._translated("delete from"):
            try:
                await self._store.delete_async(list(keys))
                return
            except FileNotFoundError as error:
                if _NO_BUCKET in str(error):
                    raise
            # A directory ends at the first that is missing.
            for key in keys:
                try:
                    await self._store.delete_async(key)
                except FileNotFoundError:
                    continue

    async def check(self) -> list[str]:
        """Writes and deletes a blob; returns warnings about a store that does not answer now.

        Raises BlobsUsageError for one that cannot be used until a person changes something.
        """
        try:
            await self.write(_PROBE, b"")
            await self.delete([_PROBE])
        except BlobsUnavailableError as error:
            if isinstance(error.__context__, _LASTING):
                raise BlobsUsageError(str(error)) from None
            return [f"{error}: logs and artifacts wait for it"]
        return []

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            reason = _code_of(error) if isinstance(self._store, S3Store) else str(error).partition("\n")[0]
            # Not `from error`: its text may name the access key, and a traceback would show it.
            raise BlobsUnavailableError(f"The history cannot {what} {self._place}: {reason}") from None


def _code_of(error: Exception) -> str:
    """Returns the code of an answer of S3; the rest of its text may name the access key."""
    text = str(error)
    if found := _CODE.search(text):
        return f"it answers {found[1] or found[2]}"
    hint = next((hint for words, hint in _HINTS.items() if words in text), "")
    return hint or f"it does not answer ({type(error).__name__})"


def open_blobs(place: str, ca_file: str = "") -> Blobs:
    """Opens a directory, or a bucket `s3://bucket/prefix`, without a request.

    A bucket's server, region and credentials are those of the variables AWS_…; `ca_file` has certificates
    that are trusted beside the public ones.  Raises BlobsUsageError for what cannot be used as it is set.
    """
    try:
        if not place.startswith("s3://"):
            return Blobs(place, LocalStore(Path(place), mkdir=True, automatic_cleanup=True))
        client: ClientConfig = {"timeout": _TIMEOUT, "connect_timeout": _CONNECT, "allow_http": True}
        if ca_file:
            client["root_certificate"] = Path(ca_file).read_bytes()
        retries: RetryConfig = {"max_retries": _RETRIES, "retry_timeout": _RETRY}
        return Blobs(place, S3Store.from_url(place, client_options=client, retry_config=retries))
    except (BaseError, OSError, ValueError) as error:
        reason = (
            str(error).partition("\n")[0]
            if isinstance(error, OSError)
            else "check FOURNOS_HISTORY_S3_CA_FILE and the variables AWS_…"
        )
        raise BlobsUsageError(f"The history cannot use {place}: {reason}") from None
