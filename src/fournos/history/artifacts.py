"""The artifacts of runs: a blob and a row of the database each, what they may be called, how many a run has.

Each upload has a blob of its own, so that replicas that share a store do not disturb each other, and a reader
never sees half of two files.  The row comes last.  What an interrupted upload left goes with its run.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from fournos.engine.api.values import has_control
from fournos.history.records import Identity, api_row

if TYPE_CHECKING:
    from fournos.history.blobs import Blobs
    from fournos.history.store.blobs import ArtifactRows


LONGEST_PATH: Final = 512
DEEPEST: Final = 16
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class ArtifactError(ValueError):
    """An artifact is refused; the text has the reason."""


@api_row
@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored file of a run."""

    path: str
    """Relative, with slashes."""
    size: int
    """Bytes."""
    sha256: str
    """Of the content, in hexadecimal."""
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    """The limits of one run; a file beyond them is refused, and the others stay."""

    files: int = 1_000
    bytes: int = 2_000_000_000

    def check(self, present: list[Artifact], path: str, size: int) -> None:
        """Raises ArtifactError if a file of this path and size is too much beside the present ones."""
        others = [artifact for artifact in present if artifact.path != path]
        if len(others) + 1 > self.files:
            raise ArtifactError(f"the run has {len(others)} artifacts, and at most {self.files} are kept")
        total = sum(artifact.size for artifact in others) + size
        if total > self.bytes:
            raise ArtifactError(
                f"{path}: the run would have {total} bytes of artifacts, and at most {self.bytes} are kept"
            )


def checked_path(path: str) -> str:
    """Returns the path of an artifact.  Raises ArtifactError for one that is not a plain relative path."""
    parts = path.split("/")
    if not path or len(path) > LONGEST_PATH or len(parts) > DEEPEST:
        raise ArtifactError(f"a path has 1 to {LONGEST_PATH} characters in at most {DEEPEST} parts")
    if any(part in ("", ".", "..") for part in parts) or "\\" in path or has_control(path):
        raise ArtifactError(
            f"{path[:100]!r} is not a plain relative path: without empty parts, '.', '..', backslashes and "
            "control characters"
        )
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ArtifactError("the path is not valid Unicode") from None
    return path


def checked_sha256(text: str) -> str:
    """Returns the checksum.  Raises ArtifactError unless it is one in lower-case hexadecimal."""
    if not _SHA256.fullmatch(text):
        raise ArtifactError("X-Content-SHA256: write the SHA-256 of the content as 64 hexadecimal digits")
    return text


class NoRunError(Exception):
    """The history has no such run (yet)."""


class Artifacts:
    """The artifacts of all runs."""

    def __init__(
        self, rows: Callable[[], Awaitable[ArtifactRows]], blobs: Blobs, limits: ArtifactLimits
    ) -> None:
        """`rows()` returns the rows of the open store."""
        self._rows = rows
        self._blobs = blobs
        self._limits = limits

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

        Raises ArtifactError for what is refused, NamespaceFullError and NoRunError.
        """
        artifact = Artifact(checked_path(path), size, checked_sha256(sha256), now)
        rows = await self._rows()
        present = list((await rows.artifacts(identity)).values())
        self._limits.check(present, artifact.path, artifact.size)
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
