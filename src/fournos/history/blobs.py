"""Blobs of the history, such as chunks of logs and artifacts: bytes under a key.

The database names each blob of a run before it is written (`Store.claim_blob`), so that none is left over.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}"
_KEY: Final = re.compile(rf"{_PART}(?:/{_PART}){{0,7}}")
_UNFINISHED: Final = ".unfinished-"
"""Starts the name of a file that is being written; no key starts so."""


class BlobKeyError(ValueError):
    """The key is not one of up to eight names, divided by slashes, of letters, digits, `.`, `_` and `-`."""


class Blobs(Protocol):
    """Bytes by key.  A blob never changes: it is written once, read, and deleted."""

    async def write(self, key: str, data: bytes) -> None:
        """Stores the whole blob or nothing.  A blob of this key is replaced."""

    async def read(self, key: str) -> bytes | None:
        """Returns the blob; None if there is none of this key."""

    async def delete(self, keys: Iterable[str]) -> None:
        """Deletes the blobs; keys without one are no error."""


class DirectoryBlobs:
    """Blobs as files of a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    async def write(self, key: str, data: bytes) -> None:
        await asyncio.to_thread(self._write, self._path(key), data)

    async def read(self, key: str) -> bytes | None:
        return await asyncio.to_thread(self._read, self._path(key))

    async def delete(self, keys: Iterable[str]) -> None:
        await asyncio.to_thread(self._delete, [self._path(key) for key in keys])

    async def size(self) -> int:
        """Returns the bytes of all blobs."""
        return await asyncio.to_thread(lambda: sum(path.lstat().st_size for path in self._files()))

    async def sweep(self) -> int:
        """Deletes what writes that did not finish have left, at a start; returns the number of files."""
        return await asyncio.to_thread(self._sweep)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise BlobKeyError(f"{key!r} is no key of a blob")
        path = self._root / key
        # A link in the directory must not lead out of it.
        if not path.parent.resolve().is_relative_to(self._root):
            raise BlobKeyError(f"{key!r} leads out of {self._root}")
        return path

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _read(self, path: Path) -> bytes | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def _delete(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            for folder in path.relative_to(self._root).parents:
                try:
                    if folder.parts:
                        (self._root / folder).rmdir()
                except OSError:
                    break  # Other blobs are in it, or it is gone.

    def _files(self) -> Iterable[Path]:
        for folder, _, names in os.walk(self._root):
            yield from (Path(folder) / name for name in names)

    def _sweep(self) -> int:
        left = [path for path in self._files() if path.name.startswith(_UNFINISHED)]
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)
