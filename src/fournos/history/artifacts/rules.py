"""What an artifact may be called, and how many a run may have.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fournos.engine.api.values import has_control
from fournos.history.records import api_row

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
