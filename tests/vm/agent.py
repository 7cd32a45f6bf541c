"""Runs inside the emulated machine: one command after the other, for the tests outside.

A line of the port is a command: its words, its environment and its directory, as JSON. Each line of its
output goes back as a JSON string, its exit code as a number. The machine has Python and nothing of this
checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main(path: str, umask: int) -> None:
    while not Path(path).exists():  # the port appears when its driver is loaded
        time.sleep(0.1)
    port = os.open(path, os.O_RDWR)
    os.umask(umask)

    def send(message: str | int | None) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(port, data) :]

    send(None)
    with os.fdopen(os.dup(port), "rb", buffering=0) as lines:
        for line in lines:
            words, environment, directory = json.loads(line)
            process = subprocess.Popen(
                words,
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            assert process.stdout is not None
            for text in process.stdout:
                send(text)
            send(process.wait())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2], 8))
