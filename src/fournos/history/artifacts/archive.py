"""Stores and returns the artifacts of runs: chunks in the blob store, one row a file in the database.

Each upload has chunks of its own, so that replicas that share a store do not disturb each other, and a reader
never sees half of two files.  The row comes last.  What an interrupted upload left is swept later.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from fournos.history.artifacts.rules import Artifact, ArtifactError, Limits, checked_path, checked_sha256
from fournos.history.blobs import Blobs
from fournos.history.records import Identity

CHUNK: Final = 4 * 2**20
"""Bytes of a chunk, and so the memory of one upload or download."""


_CHUNK_KEY: Final = re.compile(r"([^/]+)/artifacts/([0-9a-f]{64})(?:-([0-9a-f]{8}))?/\d{6,}")


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact, and the upload that stored its content."""

    artifact: Artifact
    upload: str
    """Empty: from a version without it."""

    def keys(self, uid: str) -> list[str]:
        """Returns the keys of the chunks, in their order."""
        number = -(-self.artifact.size // CHUNK)
        return [_key(uid, self.artifact.sha256, self.upload, chunk) for chunk in range(number)]


class Rows(Protocol):
    """What of the store is needed here."""

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool: ...
    async def unclaim_blobs(self, keys: list[str]) -> None: ...
    async def stored_artifacts(self, identity: Identity) -> list[StoredArtifact]: ...
    async def put_artifact(self, identity: Identity, stored: StoredArtifact) -> StoredArtifact | None: ...
    async def release_artifact(self, identity: Identity, stored: StoredArtifact) -> list[str]: ...


class NoRunError(Exception):
    """The history has no such run (yet)."""


class ContentGoneError(Exception):
    """The content that an artifact was to share is being deleted."""


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
        present = await self._rows.stored_artifacts(identity)
        self._limits.check([*(one.artifact for one in present), *receiving], wanted.path, wanted.size)
        same = [one for one in present if one.artifact.sha256 == wanted.sha256]
        for one in same:
            if one.artifact.path == wanted.path:
                return one.artifact
        stored = StoredArtifact(wanted, same[0].upload if same else secrets.token_hex(4))
        if not same:
            await self._store(identity, stored, content)
        try:
            replaced = await self._rows.put_artifact(identity, stored)
        except ContentGoneError:
            raise BusyError(f"{wanted.path}: its content is being replaced; send it again later") from None
        if replaced is not None:
            await self._forget(await self._rows.release_artifact(identity, replaced))
        return wanted

    async def _store(self, identity: Identity, stored: StoredArtifact, content: AsyncIterator[bytes]) -> None:
        wanted, digest, written, keys = stored.artifact, hashlib.sha256(), 0, list[str]()
        try:
            async for chunk in _chunks(content):
                written += len(chunk)
                if written > wanted.size:
                    break
                digest.update(chunk)
                key = _key(identity.uid, wanted.sha256, stored.upload, len(keys))
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

    async def find(self, identity: Identity, path: str) -> StoredArtifact | None:
        """Returns the artifact of this path."""
        found = await self._rows.stored_artifacts(identity)
        return next((one for one in found if one.artifact.path == path), None)

    async def read(self, identity: Identity, stored: StoredArtifact) -> AsyncIterator[bytes]:
        """Yields the content, chunk by chunk.  Raises NoRunError if a chunk is gone: the run was deleted."""
        for key in stored.keys(identity.uid):
            chunk = await self._blobs.read(key)
            if chunk is None:
                raise NoRunError
            yield chunk

    async def _forget(self, keys: list[str]) -> None:
        if keys:
            await self._blobs.delete(keys)
            await self._rows.unclaim_blobs(keys)


def _key(uid: str, sha256: str, upload: str, number: int) -> str:
    return f"{uid}/artifacts/{sha256}{f'-{upload}' if upload else ''}/{number:06}"


def upload_of(key: str) -> tuple[str, str, str] | None:
    """Returns the UID of the run, the checksum and the upload in the key of a chunk; None for other keys."""
    found = _CHUNK_KEY.fullmatch(key)
    return None if found is None else (found[1], found[2], found[3] or "")


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
