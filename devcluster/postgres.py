"""A real PostgreSQL server for tests and benchmarks, in a directory of its own, with a Unix socket alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from devcluster.errors import NotSupportedError
from devcluster.progress import Progress
from devcluster.system import POSTGRES_PACKAGES, ensure_packages

_OPTIONS = {
    "listen_addresses": "''",
    "max_connections": "60",
    "fsync": "off",
    "full_page_writes": "off",
}
_USER = "postgres"
"""PostgreSQL refuses to run as root: then it runs as this user, which Debian's package brings."""
_LIMIT = 60.0


def programs() -> Path:
    """Returns the folder of the server's programs; Debian's package is installed if there is none."""
    if (folder := _find()) is None:
        ensure_packages([POSTGRES_PACKAGES], Progress())
        folder = _find()
    if folder is None:
        raise NotSupportedError("PostgreSQL's initdb is not found", hint="Install the package postgresql.")
    return folder


def _find() -> Path | None:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    other = shutil.which("initdb")
    if debian:
        return debian[-1].parent
    return Path(other).resolve().parent if other else None


class Postgres:
    """One server.  `stop`, `kill` and `start` are for tests of a database that goes and comes back.

    It does not wait for the disk.
    """

    def __init__(self) -> None:
        self._programs = programs()
        self._user = _USER if os.geteuid() == 0 else None
        # The path of a Unix socket has at most 107 bytes, and the server's user needs access to it.
        self.directory = Path(tempfile.mkdtemp(prefix="fournos-pg-"))
        if self._user:
            entry = pwd.getpwnam(self._user)
            os.chown(self.directory, entry.pw_uid, entry.pw_gid)
        self._data = self.directory / "data"
        words = ["--auth=trust", "--username=fournos", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"]
        self._run("initdb", "--pgdata", str(self._data), *words)
        self.start()

    def start(self) -> None:
        given = {**_OPTIONS, "unix_socket_directories": str(self.directory)}
        options = " ".join(f"-c {name}={value}" for name, value in given.items())
        self._control("start", "--log", str(self.directory / "log"), "--options", options)

    def stop(self) -> None:
        """Ends all connections at once, as an administrator's restart does."""
        self._control("stop", "--mode=fast")

    def kill(self) -> None:
        """Ends the server without a shutdown, as a lost machine does."""
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        deadline = time.monotonic() + _LIMIT
        while (self._data / "postmaster.pid").exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    def close(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self._control("stop", "--mode=immediate")
        shutil.rmtree(self.directory)

    def make_database(self, template: str = "") -> str:
        """Makes an empty database, or a copy of the one with this URL, and returns its URL."""
        name = f"test_{uuid.uuid4().hex}"
        source = urlsplit(template).path.lstrip("/") or "template1"
        words = ["--host", str(self.directory), "--username", "fournos", "--dbname", "postgres", "--quiet"]
        self._run("psql", *words, "--command", f"CREATE DATABASE {name} TEMPLATE {source}")
        return f"postgresql://fournos@/{name}?host={self.directory}"

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "--pgdata", str(self._data), "--wait", "--silent", *words)

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [self._programs / program, *words],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
            group=self._user,
            extra_groups=() if self._user else None,
            cwd=self.directory,
            timeout=_LIMIT,
        )
