"""The lock file beside a SQLite database: exactly one process writes it."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Final

from fournos.history.store.errors import StoreUsageError

_LOG = logging.getLogger(__name__)

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = (
    "nfs",
    "cifs",
    "smb",
    "ceph",
    "9p",
    "afs",
    "lustre",
    "gpfs",
    "beegfs",
    "glusterfs",
    "sshfs",
    "s3fs",
)


class WriterLock:
    """Held from its creation until `release`, or until the process ends, however it ends."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}.lock")
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 200, 0).decode("utf-8", "replace").strip()
            os.close(self._descriptor)
            raise StoreUsageError(
                f"{database} is written by another process ({holder or 'unknown'}): SQLite has exactly one "
                f"writer. End that process, or use PostgreSQL (FOURNOS_HISTORY_URL) for several."
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """Returns the type of the network file system that holds the path; "" if it is a local one."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""  # Linux alone lists its mounts here.
    kind, longest = "", -1
    resolved = path.resolve()
    for line in lines:
        before, _, after = line.partition(" - ")
        # Blanks in a mount point are written as \040.
        point = Path(before.split()[4].encode().decode("unicode_escape"))
        if resolved.is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = after.split()[0], len(point.parts)
    return kind if kind.removeprefix("fuse.").startswith(_NETWORK) else ""


def warn_of_network(path: Path) -> None:
    """Logs a warning if the file system is one whose locks a database cannot rely on."""
    if kind := network_file_system(path):
        _LOG.warning(
            "%s is on a network file system (%s), where SQLite's locks are not reliable and its write-ahead "
            "log does not work: use a local volume, or PostgreSQL (FOURNOS_HISTORY_URL)",
            path,
            kind,
        )
