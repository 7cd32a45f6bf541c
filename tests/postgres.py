"""A real PostgreSQL server for tests: Debian's, in a directory of its own, reached by a Unix socket alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

import asyncpg

from devcluster.progress import Progress
from devcluster.system import TEST_PACKAGES, ensure_packages

_OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "60",
}
_USER = "postgres"
"""PostgreSQL refuses to run as root: then it runs as this user, which Debian's package brings."""


def binaries() -> Path:
    """The folder of the server's programs; Debian's package is installed if there is none."""
    if (found := _found()) is None:
        ensure_packages([TEST_PACKAGES], Progress())
        found = _found()
    assert found is not None, "The package postgresql is installed, but has brought no initdb"
    return found


def _found() -> Path | None:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    other = shutil.which("initdb")
    return debian[-1].parent if debian else Path(other).resolve().parent if other else None


class Postgres:
    """One server.  `stop`, `kill` and `start` are for tests of a database that goes and comes back."""

    def __init__(self) -> None:
        self._programs = binaries()
        self._user = _USER if os.geteuid() == 0 else None
        # Not below pytest's directory: the path of a Unix socket has at most 107 bytes, and others' access.
        self._directory = Path(tempfile.mkdtemp(prefix="fournos-pg-"))
        if self._user:
            entry = pwd.getpwnam(self._user)
            os.chown(self._directory, entry.pw_uid, entry.pw_gid)
        self._data = self._directory / "data"
        self._run(
            "initdb",
            "--pgdata",
            str(self._data),
            "--auth=trust",
            "--username=fournos",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        )
        self.start()

    def start(self) -> None:
        options = " ".join(f"-c {name}={value or repr('')}" for name, value in _OPTIONS.items())
        self._control(
            "start",
            "--log",
            str(self._directory / "log"),
            "--options",
            f"{options} -c unix_socket_directories={self._directory}",
        )

    def stop(self) -> None:
        """Ends all connections at once, as an administrator's restart does."""
        self._control("stop", "--mode=fast")

    def kill(self) -> None:
        """Ends the server without a shutdown, as a lost machine does."""
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        while (self._data / "postmaster.pid").exists():
            os.sched_yield()

    def close(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self._control("stop", "--mode=immediate")
        shutil.rmtree(self._directory)

    def url(self, database: str) -> str:
        return f"postgresql://fournos@/{database}?host={self._directory}"

    async def make_database(self) -> str:
        """Makes an empty database and returns its URL."""
        name = f"test_{uuid.uuid4().hex}"
        connection = await asyncpg.connect(host=str(self._directory), user="fournos", database="postgres")
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()
        return self.url(name)

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
            cwd=self._directory,
            timeout=60,
        )
