"""The page of `make demo`: a process of this machine that ends with the record of the cluster.

The file beside the record names the process that is to serve: an earlier one sees that, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from dev.image import ROOT
from devcluster import Cluster, DevclusterError
from devcluster.namespaces import MARKER
from devcluster.shell import tail_file
from devcluster.state import Record, require
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.web.local import HOST, PORT, LocalOptions, serve

_FILE = "page"
_LOG = "page"
_LOOK = 0.5
"""Seconds between two looks at the file."""
_LIMIT = 120.0
_PATIENCE = 5.0
"""Seconds for which the usual port is waited for: an earlier page may be about to end."""


def deploy(cluster: Cluster, namespace: str) -> str:
    """Starts the page of this checkout in place of an earlier one.  Returns the address to open.

    Raises DevclusterError if it does not serve within two minutes.
    """
    record, name = cluster.record, secrets.token_hex(8)
    (record.directory / _FILE).write_text(name)
    log = record.log_file(_LOG)
    log.parent.mkdir(parents=True, exist_ok=True)
    process = _start(record, namespace, name, log)
    deadline = time.monotonic() + _LIMIT
    while not (served := re.search(rf"http://{HOST}:\d+/open/\S+", log.read_text(errors="replace"))):
        if process.poll() is not None or time.monotonic() > deadline:
            raise DevclusterError(f"The page does not answer: {tail_file(log)}", hint=f"Its whole log: {log}")
        time.sleep(0.2)
    # It outlives this object by design.  A set return code keeps Python from warning about it.
    process.returncode = 0
    return served[0]


def _start(record: Record, namespace: str, name: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "dev.page", record.spec.name, namespace, name],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
            # Tear-down ends what has this marker.
            env={**_without_settings(os.environ), MARKER: str(record.directory)},
        )


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The page is of the demonstration's cluster, whatever cluster the terminal is set to."""
    return {name: value for name, value in environment.items() if name != "KUBECONFIG"}


def free_port(preferred: int, *, patience: float = _PATIENCE) -> int:
    """Returns `preferred` if this machine has it free within `patience` seconds, another one otherwise."""
    deadline = time.monotonic() + patience
    while True:
        port = preferred if time.monotonic() < deadline else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return int(probe.getsockname()[1])
        time.sleep(0.1)


async def _serve(record: Record, namespace: str, name: str) -> None:
    options = LocalOptions(namespace, port=await asyncio.to_thread(free_port, PORT))
    async with Client(load(record.kubeconfig)) as api:
        serving = asyncio.create_task(serve(api, options, print))
        replaced = asyncio.create_task(_replaced(record.directory, name))
        done, rest = await asyncio.wait((serving, replaced), return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for task in done:
            task.result()


async def _replaced(directory: Path, name: str) -> None:
    """Returns when the file names another process, or is gone with the cluster's record."""
    with contextlib.suppress(FileNotFoundError):
        while (directory / _FILE).read_text() == name:  # noqa: ASYNC110 - a file has no event to wait for
            await asyncio.sleep(_LOOK)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the page of the demonstration's cluster.")
    for argument in ("cluster", "namespace", "name"):
        parser.add_argument(argument)
    parsed = parser.parse_args()
    try:
        asyncio.run(_serve(require(parsed.cluster), parsed.namespace, parsed.name))
    except DevclusterError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
