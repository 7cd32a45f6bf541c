"""Stores and returns the artifacts of runs: a blob and a row of the database each.

Each upload has a blob of its own, so that replicas that share a store do not disturb each other, and a reader
never sees half of two files.  The row comes last.  What an interrupted upload left goes with its run.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

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

AT_ONCE: Final = 4
"""Files of one run that are received at once."""


class NoRunError(Exception):
    """The history has no such run (yet)."""


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

        Raises ArtifactError for what is refused, NamespaceFullError, NoRunError and UploadBusyError.
        """
        artifact = Artifact(checked_path(path), size, checked_sha256(sha256), now)
        others = self._receiving.setdefault(identity, [])
        if any(artifact.path == other.path for other in others):
            raise UploadBusyError(f"{path}: this file is being received already; send it again later")
        if len(others) >= AT_ONCE:
            raise UploadBusyError(
                f"{path}: {AT_ONCE} files of this run are being received; send it again later"
            )
        others.append(artifact)
        try:
            return await self._receive(identity, artifact, others, content)
        finally:
            others.remove(artifact)
            if not others:
                self._receiving.pop(identity, None)

    async def _receive(
        self, identity: Identity, artifact: Artifact, receiving: list[Artifact], content: AsyncIterator[bytes]
    ) -> Artifact:
        rows = await self._rows()
        present = list((await rows.artifacts(identity)).values())
        self._limits.check([*present, *receiving], artifact.path, artifact.size)
        for earlier in present:
            if (earlier.path, earlier.sha256) == (artifact.path, artifact.sha256):
                return earlier
        key = f"{identity.uid}/artifacts/{secrets.token_hex(8)}"
        if not await rows.claim_blob(identity, key, artifact.size):
            raise NoRunError
        try:
            await self._blobs.write(key, _checked(content, artifact))
            replaced = await rows.put_artifact(identity, artifact, key)
        except BaseException:
            await self._forget(key)
            raise
        if replaced is not None:
            await self._forget(replaced)
        if replaced == key:
            raise NoRunError
        return artifact

    async def find(self, identity: Identity, path: str) -> tuple[str, Artifact] | None:
        """Returns the artifact of this path, after the key of its content."""
        present = await (await self._rows()).artifacts(identity)
        return next((found for found in present.items() if found[1].path == path), None)

    async def read(self, key: str) -> AsyncGenerator[bytes, None]:
        """Yields the content, piece by piece.  Raises NoRunError if it is gone: the run was deleted."""
        pieces = await self._blobs.chunks(key)
        if pieces is None:
            raise NoRunError
        async for piece in pieces:
            yield piece

    async def _forget(self, key: str) -> None:
        await self._blobs.delete([key])
        await (await self._rows()).unclaim_blobs([key])


async def _checked(content: AsyncIterator[bytes], artifact: Artifact) -> AsyncIterator[bytes]:
    """Yields the content.  Raises ArtifactError if it is not the announced one: nothing is stored then."""
    digest, size = hashlib.sha256(), 0
    async for piece in content:
        size += len(piece)
        if size > artifact.size:
            break
        digest.update(piece)
        yield piece
    if size != artifact.size:
        raise ArtifactError(f"{artifact.path}: {artifact.size} bytes were announced, and {size} came")
    if digest.hexdigest() != artifact.sha256:
        raise ArtifactError(f"{artifact.path}: the content does not have the announced checksum")
