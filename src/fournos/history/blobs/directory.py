"""Blobs as files of a directory."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from fournos.history.blobs.blobs import KEY, PAGE, BlobKeyError, ListedBlob, Room, checked

_UNFINISHED: Final = ".unfinished-"
"""Starts the name of a file that is being written; no key starts so."""


class DirectoryBlobs:
    """Blobs as files of a directory."""

    def __init__(self, root: Path, *, to_the_end: bool = False) -> None:
        """`to_the_end`: the volume may be filled to its end, instead of keeping a part of it free."""
        self._root = root.resolve()
        self._to_the_end = to_the_end

    async def write(self, key: str, data: bytes) -> None:
        await asyncio.to_thread(self._write, self._path(key), data)

    async def room(self) -> Room:
        return await asyncio.to_thread(self._room)

    async def read(self, key: str) -> bytes | None:
        return await asyncio.to_thread(self._read, self._path(key))

    async def delete(self, keys: Iterable[str]) -> None:
        await asyncio.to_thread(self._delete, [self._path(key) for key in keys])

    async def pages(self) -> AsyncIterator[Sequence[ListedBlob]]:
        found = self._listed()
        while page := await asyncio.to_thread(lambda: list(islice(found, PAGE))):
            yield page

    async def sweep(self) -> int:
        return await asyncio.to_thread(self._sweep)

    def _path(self, key: str) -> Path:
        path = self._root / checked(key)
        # A link in the directory must not lead out of it.
        if not path.parent.resolve().is_relative_to(self._root):
            raise BlobKeyError(f"{key!r} leads out of {self._root}")
        return path

    def _room(self) -> Room:
        self._root.mkdir(parents=True, exist_ok=True)
        usage = shutil.disk_usage(self._root)
        return Room(usage.total, usage.free)

    def _write(self, path: Path, data: bytes) -> None:
        room = self._room()
        if not self._to_the_end:
            room.check(len(data))
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

    def _listed(self) -> Iterator[ListedBlob]:
        for path in self._files():
            key = path.relative_to(self._root).as_posix()
            if not KEY.fullmatch(key):
                continue
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # It was deleted since.
            yield ListedBlob(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def _files(self) -> Iterable[Path]:
        for folder, _, names in os.walk(self._root):
            yield from (Path(folder) / name for name in names)

    def _sweep(self) -> int:
        left = [path for path in self._files() if path.name.startswith(_UNFINISHED)]
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)
