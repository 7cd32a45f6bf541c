"""What every store of blobs does, and what a key is.

The database names each blob of a run before it is written (`BlobRows.claim_blob`), so that none is left over.
Keys are the same in every store: a plain copy of one is the other.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}"
KEY: Final = re.compile(rf"{_PART}(?:/{_PART}){{0,7}}")
FREE: Final = 0.1
"""The part of a volume that stays free: the rows of runs, and other programs, need it."""
PAGE: Final = 1000
"""Blobs that a listing holds in memory at once."""


class BlobKeyError(ValueError):
    """The key is not one of up to eight names, divided by slashes, of letters, digits, `.`, `_` and `-`."""


class BlobsUsageError(Exception):
    """The store of blobs cannot be used as it is set; only a person can change that.

    The message states what is wrong and what to do.
    """


class BlobsUnavailableError(OSError):
    """The store of blobs does not answer as it should.  The same call may succeed later."""


class BlobsFullError(BlobsUnavailableError):
    """Too little of the volume is free; what is stored stays readable."""


@dataclass(frozen=True, slots=True)
class Room:
    """The volume of a store of blobs, in bytes."""

    total: int
    free: int

    def full(self, size: int = 0) -> bool:
        """True if less than `FREE` of the volume is free with so many bytes more."""
        return self.free - size < FREE * self.total

    def check(self, size: int) -> None:
        """Raises BlobsFullError if the volume would be full with so many bytes more."""
        if self.full(size):
            raise BlobsFullError(
                f"the volume of the history has {self.free // 10**6} MB free of {self.total // 10**6} MB, "
                f"and {FREE:.0%} of it stay free; delete runs, shorten the retention, or enlarge the volume"
            )


@dataclass(frozen=True, slots=True)
class ListedBlob:
    """A blob in a listing."""

    key: str
    size: int
    """Bytes."""
    written_at: datetime


class Blobs(Protocol):
    """Bytes by key.  A blob is written as a whole, read, and deleted.

    Every method raises OSError if the store does not answer or has no space.
    """

    async def write(self, key: str, data: bytes) -> None:
        """Stores the whole blob or nothing.  A blob of this key is replaced."""

    async def room(self) -> Room | None:
        """Returns the volume; None: its size is not known, as that of a bucket."""

    async def read(self, key: str) -> bytes | None:
        """Returns the blob; None if there is none of this key."""

    async def delete(self, keys: Iterable[str]) -> None:
        """Deletes the blobs; keys without one are no error."""

    def pages(self) -> AsyncIterator[Sequence[ListedBlob]]:
        """Yields all blobs, in pages of at most PAGE.  What has no key of a blob is left out."""

    async def sweep(self) -> int:
        """Deletes what writes that did not finish have left; returns the number.

        To be called by the writer at its start, before it writes.
        """


def checked(key: str) -> str:
    """Returns the key.  Raises BlobKeyError for one that could be another path."""
    if not KEY.fullmatch(key):
        raise BlobKeyError(f"{key!r} is not a key of a blob")
    return key
