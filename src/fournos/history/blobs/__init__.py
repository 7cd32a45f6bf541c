"""Blobs of the history, such as chunks of logs and artifacts: bytes under a key, in a directory or in S3."""

from fournos.history.blobs.blobs import (
    BlobKeyError,
    Blobs,
    BlobsUnavailableError,
    BlobsUsageError,
    Listed,
)
from fournos.history.blobs.copying import Copied, copy_blobs
from fournos.history.blobs.directory import DirectoryBlobs
from fournos.history.blobs.location import S3Location
from fournos.history.blobs.opening import check_blobs, open_blobs

__all__ = [
    "BlobKeyError",
    "Blobs",
    "BlobsUnavailableError",
    "BlobsUsageError",
    "Copied",
    "DirectoryBlobs",
    "Listed",
    "S3Location",
    "check_blobs",
    "copy_blobs",
    "open_blobs",
]
