"""The page of `make demo`: a process of this machine that lives as long as the record of the cluster.

Its port and its token are kept beside the record, so that the address stays the same when it is started anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dev.image import ROOT
from devcluster import Cluster, DevclusterError
from devcluster.locks import file_lock
from devcluster.namespaces import MARKER
from devcluster.shell import tail_file
from devcluster.state import ProcessRef, Record, alive, reference, require
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.web.local import HOST, PORT, LocalOptions, Loopback, serve

_FILE = "page.json"
_LOG = "page"
_END = 15.0
"""Seconds that an earlier process has to end."""
_LOOK = 1.0
"""Seconds between two looks at the file: the process ends when the cluster's record is gone."""


@dataclass(frozen=True)
class Served:
    """Where the page of a cluster is served."""

    port: int
    token: str
    process: ProcessRef | None = None
    """The process that serves it; None until that has begun."""

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/open/{self.token}"


def deploy(cluster: Cluster, namespace: str, *, limit: float = 120.0) -> str:
    """Starts the page of this checkout in place of an earlier one.  Returns the address to open.

    Raises DevclusterError if it does not answer within `limit` seconds.
    """
    record = cluster.record
    before = _read(record.directory)
    if before and before.process:
        _end(before.process)
    port = free_port(before.port if before else PORT)
    served = Served(port, before.token if before else secrets.token_urlsafe(32))
    _write(record.directory, served)
    process = _start(record, namespace)
    deadline = time.monotonic() + limit
    while not _answers(served):
        if not alive(process) or time.monotonic() > deadline:
            log = record.log_file(_LOG)
            raise DevclusterError(f"The page does not answer: {tail_file(log)}", hint=f"Its whole log: {log}")
        time.sleep(0.2)
    return served.address


def free_port(preferred: int) -> int:
    """Returns `preferred` if this machine has it free, another one otherwise."""
    for port in (preferred, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return int(probe.getsockname()[1])
    raise DevclusterError(f"No port of {HOST} is free")


def _read(directory: Path) -> Served | None:
    try:
        found = json.loads((directory / _FILE).read_text())
        process = found["process"]
        return Served(found["port"], found["token"], ProcessRef(**process) if process else None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(directory: Path, served: Served) -> None:
    new = directory / f"{_FILE}.new"
    new.touch(mode=0o600)
    new.write_text(json.dumps(asdict(served)))
    new.replace(directory / _FILE)


def _start(record: Record, namespace: str) -> ProcessRef:
    log = record.log_file(_LOG)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "dev.page", record.spec.name, namespace],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
            # Tear-down ends what has this marker.
            env={**_without_settings(os.environ), MARKER: str(record.directory)},
        )
    # It outlives this object by design.  A set return code keeps Python from warning about it.
    process.returncode = 0
    return reference(process.pid)


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The page is of the demonstration's cluster, whatever cluster the terminal is set to."""
    return {name: value for name, value in environment.items() if name != "KUBECONFIG"}


def _end(process: ProcessRef) -> None:
    deadline = time.monotonic() + _END
    while alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
        time.sleep(0.05)


def _answers(served: Served) -> bool:
    connection = http.client.HTTPConnection(HOST, served.port, timeout=10)
    try:
        connection.request("GET", f"/open/{served.token}")
        return connection.getresponse().status == http.HTTPStatus.SEE_OTHER
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def _serve(record: Record, namespace: str) -> None:
    recorded = _read(record.directory)
    if recorded is None:
        raise DevclusterError(f"{record.directory / _FILE} cannot be read")
    served = Served(recorded.port, recorded.token, reference(os.getpid()))
    _write(record.directory, served)
    options = LocalOptions(namespace, port=served.port)
    async with Client(load(record.kubeconfig)) as api:
        serving = asyncio.create_task(serve(api, options, print, login=partial(Loopback, token=served.token)))
        replaced = asyncio.create_task(_replaced(record.directory, served))
        done, rest = await asyncio.wait((serving, replaced), return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for task in done:
            task.result()


async def _replaced(directory: Path, served: Served) -> None:
    """Returns when the file names another process, or is gone with the cluster's record."""
    while _read(directory) == served:  # noqa: ASYNC110 - a file has no event to wait for
        await asyncio.sleep(_LOOK)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the page of the demonstration's cluster.")
    parser.add_argument("cluster")
    parser.add_argument("namespace")
    parsed = parser.parse_args()
    try:
        record = require(parsed.cluster)
        # One that was started by a demonstration which was killed ends when it sees this one's file.
        with file_lock(record.directory / f"{_FILE}.lock", limit=_END, what="The page"):
            asyncio.run(_serve(record, parsed.namespace))
    except DevclusterError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
