"""Blobs as objects of an S3 bucket: of AWS, or of any server with its API.

A blob is at most a few megabytes, so each is written by one request, which the server takes as a whole or not
at all: no unfinished multipart upload is ever left, and what a killed process sent by half is not there.  The
signature covers the content's SHA-256, which the server checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from obstore.exceptions import BaseError
from obstore.store import S3Store

from fournos.history.blobs.blobs import KEY, PAGE, BlobsUnavailableError, BlobsUsageError, ListedBlob, checked
from fournos.history.blobs.location import S3Location
from fournos.history.blobs.s3_errors import NO_KEY, code_of, explained

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_TIMEOUT: Final = timedelta(seconds=60)
_CONNECT: Final = timedelta(seconds=5)
_RETRIES: Final = 3
_RETRY: Final = timedelta(seconds=20)
"""Who calls tries again for longer, with a backoff, and shows it in the log."""
_TURNS: Final = 32
"""Requests at once: after an outage all logs have something to write."""
_PROBE: Final = "fournos-probe"


class S3Blobs:
    """Blobs below the prefix of a bucket."""

    def __init__(self, location: S3Location) -> None:
        """Raises BlobsUsageError if the file of the authority or a variable AWS_… cannot be used.

        Credentials come from the environment: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, AWS_ROLE_ARN with
        AWS_WEB_IDENTITY_TOKEN_FILE, or the cloud's own metadata.
        """
        self._location = location
        self._turns = asyncio.Semaphore(_TURNS)
        self._store = _opened(location)

    async def write(self, key: str, data: bytes) -> None:
        async with self._turns:
            with self._translated("write to"):
                await self._store.put_async(checked(key), data, use_multipart=False)

    async def room(self) -> None:
        return None

    async def read(self, key: str) -> bytes | None:
        async with self._turns:
            with self._translated("read from"):
                try:
                    found = await self._store.get_async(checked(key))
                    return bytes(await found.bytes_async())
                except FileNotFoundError as error:
                    if code_of(str(error)) == NO_KEY:
                        return None
                    raise  # A bucket that is gone must not look like a blob that is.

    async def delete(self, keys: Iterable[str]) -> None:
        paths = [checked(key) for key in keys]
        async with self._turns:
            with self._translated("delete from"):
                for start in range(0, len(paths), PAGE):
                    await self._store.delete_async(paths[start : start + PAGE])

    async def pages(self) -> AsyncIterator[Sequence[ListedBlob]]:
        stream = self._store.list(chunk_size=PAGE)
        while True:
            with self._translated("list"):
                try:
                    page = await anext(stream)
                except StopAsyncIteration:
                    return
            yield [
                ListedBlob(one["path"], one["size"], one["last_modified"])
                for one in page
                if KEY.fullmatch(one["path"])
            ]

    async def sweep(self) -> int:
        return 0

    async def check(self) -> None:
        """Writes, lists and deletes.

        Raises BlobsUsageError for what only a person can change, else BlobsUnavailableError.
        """
        with self._translated("use", lasting=BlobsUsageError):
            await self._store.put_async(_PROBE, b"", use_multipart=False)
            await anext(self._store.list(chunk_size=1), None)
            await self._store.delete_async([_PROBE])

    @contextmanager
    def _translated(self, what: str, *, lasting: type[Exception] = BlobsUnavailableError) -> Iterator[None]:
        """Raises the errors of the library as BlobsUnavailableError; those that do not pass as `lasting`."""
        try:
            yield
        except (BaseError, OSError) as error:
            text, lasts = explained(str(error))
            message = f"The history cannot {what} {self._location}: {text}"
            # Not `from error`: its text may name the access key, and a traceback would show it.
            raise (lasting if lasts else BlobsUnavailableError)(message) from None


def _opened(location: S3Location) -> S3Store:
    given: dict[str, Any] = {
        "endpoint": location.address,
        "region": location.region,
        "virtual_hosted_style_request": not location.path_style,
    }
    client: ClientConfig = {
        "timeout": _TIMEOUT,
        "connect_timeout": _CONNECT,
        "allow_http": location.endpoint.startswith("http://"),
    }
    if location.ca_file:
        try:
            client["root_certificate"] = Path(location.ca_file).read_bytes()
        except OSError as error:
            name = f"FOURNOS_HISTORY_S3_CA_FILE: {location.ca_file}"
            raise BlobsUsageError(f"{name}: {error.strerror}") from None
    try:
        return S3Store(
            location.bucket,
            prefix=location.prefix or None,
            client_options=client,
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY},
            **{name: value for name, value in given.items() if value != ""},
        )
    except (BaseError, ValueError):
        raise BlobsUsageError(
            f"The settings of {location} cannot be used: check FOURNOS_HISTORY_S3_CA_FILE (certificates as "
            "PEM) and the variables AWS_…"
        ) from None
