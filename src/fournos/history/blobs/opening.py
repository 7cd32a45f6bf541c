"""The store of blobs that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fournos.extras import remedy
from fournos.history.blobs.blobs import Blobs, BlobsUnavailableError, BlobsUsageError
from fournos.history.blobs.directory import DirectoryBlobs
from fournos.history.blobs.location import S3Location

if TYPE_CHECKING:
    from fournos.history.blobs.s3 import S3Blobs


def open_blobs(place: Path | S3Location, *, to_the_end: bool = False) -> Blobs:
    """Opens the store, without a request.  Raises BlobsUsageError if it cannot be used as it is set.

    `to_the_end`: a volume may be filled to its end.
    """
    return _s3(place) if isinstance(place, S3Location) else DirectoryBlobs(place, to_the_end=to_the_end)


async def check_blobs(place: Path | S3Location) -> list[str]:
    """Returns warnings about a bucket that does not answer now.

    Raises BlobsUsageError for one that cannot be used until a person changes something.  A directory is made
    with the first blob.
    """
    if isinstance(place, S3Location):
        try:
            await _s3(place).check()
        except BlobsUnavailableError as error:
            return [f"{error}: logs and artifacts wait for it"]
    return []


def _s3(location: S3Location) -> S3Blobs:
    try:
        # An installation without the extra `s3` keeps its blobs in a directory.
        from fournos.history.blobs.s3 import S3Blobs
    except ImportError as error:
        raise BlobsUsageError(f"{location} needs {error.name}: {remedy('history,s3')}") from error
    return S3Blobs(location)
