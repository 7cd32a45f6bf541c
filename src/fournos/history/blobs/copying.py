"""Copies all blobs of one store to another.  It may be run again: what is there already is not copied."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from fournos.history.blobs.blobs import Blobs, ListedBlob

_WORKERS: Final = 8
"""Blobs in memory at once; each has a few megabytes."""
_SECOND: Final = timedelta(seconds=1)
"""S3 has no shorter times."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did."""

    blobs: int = 0
    bytes: int = 0
    present: int = 0
    """Blobs that were there already."""


async def copy_blobs(source: Blobs, target: Blobs) -> Copied:
    """Copies what the target lacks or has in an older state; deletes nothing.  Raises OSError."""
    there = {blob.key: blob async for page in target.pages() for blob in page}
    number = size = present = 0
    async for page in source.pages():
        differing = [blob for blob in page if _differs(blob, there.get(blob.key))]
        present += len(page) - len(differing)
        for start in range(0, len(differing), _WORKERS):
            some = differing[start : start + _WORKERS]
            sizes = await asyncio.gather(*(_copy(source, target, blob.key) for blob in some))
            number += sum(copied is not None for copied in sizes)
            size += sum(copied or 0 for copied in sizes)
    return Copied(number, size, present)


def _differs(source: ListedBlob, target: ListedBlob | None) -> bool:
    # The last chunk of a log that goes on is written again, with more lines.
    if target is None or target.size != source.size:
        return True
    return target.written_at + _SECOND < source.written_at


async def _copy(source: Blobs, target: Blobs, key: str) -> int | None:
    """Returns the bytes; None if the blob was deleted meanwhile."""
    data = await source.read(key)
    if data is None:
        return None
    await target.write(key, data)
    return len(data)
