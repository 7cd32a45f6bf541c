"""Locks between processes of this machine. Each holder removes the lock file when it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.errors import DevclusterError


@contextmanager
def file_lock(path: Path, *, limit: float, what: str) -> Iterator[None]:
    """Holds an exclusive lock on `path`. Waits at most `limit` seconds for another holder.

    The kernel releases the lock when the process ends, in any way. Raises DevclusterError after `limit`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + limit
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                break
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise DevclusterError(f"{what} is busy: another process has held {path} for {limit:.0f} s")
        time.sleep(0.1)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """True if the path still names the locked file (an earlier holder may have removed it)."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return named.st_ino == os.fstat(descriptor).st_ino
