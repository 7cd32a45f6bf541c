"""Blobs of the history, such as chunks of logs and artifacts: bytes under a key, in a directory or in S3."""

from fournos.history.blobs.blobs import (
    FREE,
    BlobKeyError,
    Blobs,
    BlobsFullError,
    BlobsUnavailableError,
    BlobsUsageError,
    ListedBlob,
    Room,
)
from fournos.history.blobs.directory import DirectoryBlobs
from fournos.history.blobs.location import S3Location
from fournos.history.blobs.opening import check_blobs, open_blobs

__all__ = [
    "FREE",
    "BlobKeyError",
    "Blobs",
    "BlobsFullError",
    "BlobsUnavailableError",
    "BlobsUsageError",
    "DirectoryBlobs",
    "ListedBlob",
    "Room",
    "S3Location",
    "check_blobs",
    "open_blobs",
]
