"""Stores and returns the artifacts of runs: chunks in the blob store, one row a file in the database.

Each upload has chunks of its own, so that replicas that share a store do not disturb each other, and a reader
never sees half of two files.  The row comes last.  What an interrupted upload left is swept later.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from fournos.engine.runtime.reviews import TtlCache
from fournos.history.artifacts.rules import (
    Artifact,
    ArtifactError,
    ArtifactLimits,
    checked_path,
    checked_sha256,
)
from fournos.history.blobs import Blobs
from fournos.history.records import Identity

if TYPE_CHECKING:
    from fournos.history.store.artifacts import ArtifactRows

CHUNK: Final = 4 * 2**20
"""Bytes of a chunk, and so the memory of one upload or download."""
AT_ONCE: Final = 4
"""Files of one run that are received at once."""
_SPACES: Final = 1024
_USED: Final = 10.0
"""Seconds for which the bytes of a namespace are not summed again; what is received meanwhile is added."""


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


@dataclass(slots=True)
class _Upload:
    """A file that is being received."""

    artifact: Artifact
    claimed: int = 0
    """Bytes of it that `ArtifactRows.blob_bytes` counts already."""


@dataclass(slots=True)
class _Used:
    """What a namespace has, apart from files that are being received."""

    bytes: int


class NoRunError(Exception):
    """The history has no such run (yet)."""


class ContentGoneError(Exception):
    """The content that an artifact was to share is being deleted."""


class UploadBusyError(Exception):
    """The same file, or enough files of the run, are being received already."""


class Artifacts:
    """The artifacts of all runs."""

    def __init__(
        self, rows: Callable[[], Awaitable[ArtifactRows]], blobs: Blobs, limits: ArtifactLimits
    ) -> None:
        """`rows()` returns the rows of the open store."""
        self._rows = rows
        self._blobs = blobs
        self._limits = limits
        self._receiving: dict[Identity, list[_Upload]] = {}
        """What is being received now: it counts for the limits."""
        self._used: TtlCache[tuple[str, str], _Used] = TtlCache(_SPACES, monotonic=time.monotonic)
        """The namespaces that have sent files lately."""

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
        artifact = Artifact(checked_path(path), size, checked_sha256(sha256), now)
        others = self._receiving.setdefault(identity, [])
        if any(artifact.path == one.path or artifact.sha256 == one.sha256 for one in _artifacts(others)):
            raise UploadBusyError(f"{path}: this file is being received already; send it again later")
        if len(others) >= AT_ONCE:
            raise UploadBusyError(
                f"{path}: {AT_ONCE} files of this run are being received; send it again later"
            )
        upload = _Upload(artifact)
        others.append(upload)
        try:
            return await self._receive(identity, upload, others, content)
        finally:
            others.remove(upload)
            if not others:
                self._receiving.pop(identity, None)

    async def _receive(
        self, identity: Identity, upload: _Upload, receiving: list[_Upload], content: AsyncIterator[bytes]
    ) -> Artifact:
        artifact, present = upload.artifact, await (await self._rows()).stored_artifacts(identity)
        self._limits.check([*_artifacts(present), *_artifacts(receiving)], artifact.path, artifact.size)
        same = [earlier for earlier in present if earlier.artifact.sha256 == artifact.sha256]
        for earlier in same:
            if earlier.artifact.path == artifact.path:
                return earlier.artifact
        stored = StoredArtifact(artifact, same[0].upload if same else secrets.token_hex(4))
        if not same:
            await self._check_room(identity, artifact.size)
            await self._store(identity, stored, upload, content)
        try:
            replaced = await (await self._rows()).put_artifact(identity, stored)
        except ContentGoneError:
            raise UploadBusyError(
                f"{artifact.path}: its content is being replaced; send it again later"
            ) from None
        if replaced is not None:
            await self._forget(await (await self._rows()).release_artifact(identity, replaced))
        if not same and (used := self._used.get(_space(identity))) is not None:
            used.bytes += artifact.size
        return artifact

    async def _check_room(self, identity: Identity, size: int) -> None:
        """Raises BlobsFullError if the share of the namespace, or the volume, has no room for it now."""
        room = await self._blobs.room()
        if room is None:
            return
        space = _space(identity)
        if (used := self._used.get(space)) is None:
            stored = await (await self._rows()).blob_bytes(identity)
            claimed = sum(upload.claimed for upload in self._coming(space))
            used = self._used.put(space, _Used(stored - claimed), _USED)
        mine = sum(upload.artifact.size for upload in self._coming(space))
        self._limits.check_share(used.bytes + mine - size, size, room)
        room.check(sum(upload.artifact.size - upload.claimed for upload in self._coming()))

    def _coming(self, space: tuple[str, str] | None = None) -> Iterator[_Upload]:
        """Yields what is being received now, of a namespace or of all."""
        for run, uploads in self._receiving.items():
            if space in (None, _space(run)):
                yield from uploads

    async def _store(
        self, identity: Identity, stored: StoredArtifact, upload: _Upload, content: AsyncIterator[bytes]
    ) -> None:
        artifact, digest, written, keys = stored.artifact, hashlib.sha256(), 0, list[str]()
        try:
            async for chunk in _chunks(content):
                written += len(chunk)
                if written > artifact.size:
                    break
                digest.update(chunk)
                key = _key(identity.uid, artifact.sha256, stored.upload, len(keys))
                if not await (await self._rows()).claim_blob(identity, key, len(chunk)):
                    raise NoRunError
                keys.append(key)
                upload.claimed = written
                await self._blobs.write(key, chunk)
            if written != artifact.size:
                raise ArtifactError(
                    f"{artifact.path}: {artifact.size} bytes were announced, and {written} came"
                )
            if digest.hexdigest() != artifact.sha256:
                raise ArtifactError(f"{artifact.path}: the content does not have the announced checksum")
        except BaseException:
            await self._forget(keys)
            raise

    async def find(self, identity: Identity, path: str) -> StoredArtifact | None:
        """Returns the artifact of this path."""
        found = await (await self._rows()).stored_artifacts(identity)
        return next((one for one in found if one.artifact.path == path), None)

    async def read(self, identity: Identity, stored: StoredArtifact) -> AsyncGenerator[bytes, None]:
        """Yields the content, chunk by chunk.  Raises NoRunError if a chunk is gone: the run was deleted."""
        for key in stored.keys(identity.uid):
            chunk = await self._blobs.read(key)
            if chunk is None:
                raise NoRunError
            yield chunk

    async def _forget(self, keys: list[str]) -> None:
        if keys:
            await self._blobs.delete(keys)
            await (await self._rows()).unclaim_blobs(keys)


def _space(run: Identity) -> tuple[str, str]:
    return run.cluster, run.namespace


def _artifacts(files: Iterable[_Upload | StoredArtifact]) -> Iterator[Artifact]:
    return (file.artifact for file in files)


def _key(uid: str, sha256: str, upload: str, number: int) -> str:
    return f"{uid}/artifacts/{sha256}{f'-{upload}' if upload else ''}/{number:06}"


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
