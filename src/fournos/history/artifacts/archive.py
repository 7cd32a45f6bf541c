"""Stores and returns the artifacts of runs: chunks in the blob store, one row a file in the database.

Chunks are named by the checksum of the whole file.  A file that is sent again writes the same chunks, so that
an interrupted upload is repaired by the next one, and a reader never sees half of two files.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, Protocol

from fournos.history.artifacts.rules import Artifact, ArtifactError, Limits, checked_path, checked_sha256
from fournos.history.blobs import Blobs
from fournos.history.records import Identity

CHUNK: Final = 4 * 2**20
"""Bytes of a chunk, and so the memory of one upload or download."""


class Rows(Protocol):
    """What of the store is needed here."""

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool: ...
    async def unclaim_blobs(self, keys: list[str]) -> None: ...
    async def artifacts(self, identity: Identity) -> list[Artifact]: ...
    async def put_artifact(self, identity: Identity, artifact: Artifact) -> bool: ...


class NoRunError(Exception):
    """The history has no such run (yet)."""


class BusyError(Exception):
    """The same file is being received already."""


class Artifacts:
    """The artifacts of all runs."""

    def __init__(self, rows: Rows, blobs: Blobs, limits: Limits) -> None:
        self._rows = rows
        self._blobs = blobs
        self._limits = limits
        self._receiving: dict[Identity, list[Artifact]] = {}
        """What is being received now: it counts for the limits."""

    async def receive(
        self,
        identity: Identity,
        path: str,
        content: AsyncIterator[bytes],
        *,
        size: int,
        sha256: str,
        now: datetime,
    ) -> Artifact:
        """Stores a file.  `content` yields pieces of any size, `size` bytes in all.

        Raises ArtifactError for what is refused, NoRunError and BusyError.
        """
        wanted = Artifact(checked_path(path), size, checked_sha256(sha256), now)
        others = self._receiving.setdefault(identity, [])
        if any(one.path == wanted.path or one.sha256 == wanted.sha256 for one in others):
            raise BusyError(f"{path}: this file is being received already; send it again later")
        others.append(wanted)
        try:
            return await self._receive(identity, wanted, others, content)
        finally:
            others.remove(wanted)
            if not others:
                self._receiving.pop(identity, None)

    async def _receive(
        self, identity: Identity, wanted: Artifact, receiving: list[Artifact], content: AsyncIterator[bytes]
    ) -> Artifact:
        present = await self._rows.artifacts(identity)
        self._limits.check([*present, *receiving], wanted.path, wanted.size)
        for one in present:
            if (one.path, one.sha256) == (wanted.path, wanted.sha256):
                return one
        if not any(one.sha256 == wanted.sha256 for one in present):
            await self._store(identity, wanted, content)
        if not await self._rows.put_artifact(identity, wanted):
            raise NoRunError
        await self._drop(identity, [one for one in present if one.path == wanted.path])
        return wanted

    async def _store(self, identity: Identity, wanted: Artifact, content: AsyncIterator[bytes]) -> None:
        digest, written, keys = hashlib.sha256(), 0, list[str]()
        try:
            async for chunk in _chunks(content):
                written += len(chunk)
                if written > wanted.size:
                    break
                digest.update(chunk)
                key = _key(identity, wanted.sha256, len(keys))
                if not await self._rows.claim_blob(identity, key, len(chunk)):
                    raise NoRunError
                keys.append(key)
                await self._blobs.write(key, chunk)
            if written != wanted.size:
                raise ArtifactError(f"{wanted.path}: {wanted.size} bytes were announced, and {written} came")
            if digest.hexdigest() != wanted.sha256:
                raise ArtifactError(f"{wanted.path}: the content does not have the announced checksum")
        except BaseException:
            await self._forget(keys)
            raise

    async def find(self, identity: Identity, path: str) -> Artifact | None:
        """Returns the artifact of this path."""
        return next((one for one in await self._rows.artifacts(identity) if one.path == path), None)

    async def read(self, identity: Identity, artifact: Artifact) -> AsyncIterator[bytes]:
        """Yields the content, chunk by chunk.  Raises NoRunError if a chunk is gone: the run was deleted."""
        for number in range(-(-artifact.size // CHUNK)):
            chunk = await self._blobs.read(_key(identity, artifact.sha256, number))
            if chunk is None:
                raise NoRunError
            yield chunk

    async def _drop(self, identity: Identity, replaced: list[Artifact]) -> None:
        """Deletes the chunks of replaced files that no other file of the run has."""
        used = {one.sha256 for one in await self._rows.artifacts(identity)}
        for one in replaced:
            if one.sha256 not in used:
                await self._forget([_key(identity, one.sha256, n) for n in range(-(-one.size // CHUNK))])

    async def _forget(self, keys: list[str]) -> None:
        await self._blobs.delete(keys)
        await self._rows.unclaim_blobs(keys)


def _key(identity: Identity, sha256: str, number: int) -> str:
    return f"{identity.uid}/artifacts/{sha256}/{number:06}"


async def _chunks(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the content in pieces of CHUNK bytes; the last may be shorter."""
    waiting = bytearray()
    async for piece in content:
        waiting += piece
        while len(waiting) >= CHUNK:
            yield bytes(waiting[:CHUNK])
            del waiting[:CHUNK]
    if waiting:
        yield bytes(waiting)
