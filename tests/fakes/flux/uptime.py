"""flux uptime.

Pods are probed with it, and real flux starts no Python for it: this imports as little as possible.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any


def uptime(words: list[str]) -> int:
    """Asks the broker of this rank for its state, and rank 0 for the rest only if that is `run`."""
    answer = _answer("state")
    lost = drained = 0
    if answer["state"] == "run":
        ranks = _answer("ranks")["ranks"]
        lost = sum(not rank["up"] for rank in ranks)
        drained = sum(rank["drained"] is not None for rank in ranks)
    text = f" {time.strftime('%H:%M:%S')} {answer['state']} 1s,  owner {os.getuid()},  depth 0,"
    text += f"  size {answer['size']}"
    print(text + (f",  {drained} drained" if drained else "") + (f",  {lost} offline" if lost else ""))
    return 0


def _answer(operation: str) -> dict[str, Any]:
    """The broker's one answer.  Ends the program with the broker's error."""
    uri = os.environ.get("FLUX_URI", "")
    if not uri.startswith("local://"):
        _die(f"unable to connect to Flux: {uri or 'FLUX_URI is not set'}: No such file or directory")
    scope = os.environ.get("FLUX_STANDIN_SCOPE", "")
    with socket.socket(socket.AF_UNIX) as broker:
        try:
            broker.connect(uri.removeprefix("local://"))
        except OSError as error:
            _die(f"unable to connect to Flux: {uri}: {error.strerror}")
        broker.sendall(json.dumps({"op": operation, "scope": scope}).encode() + b"\n")
        line = broker.makefile("rb").readline()
    if not line.endswith(b"\n"):
        _die("lost contact with the broker")
    answer: dict[str, Any] = json.loads(line)
    if answer.get("error"):
        _die(str(answer["error"]))
    return answer


def _die(message: str) -> None:
    print(f"flux-uptime: {message}", file=sys.stderr, flush=True)
    raise SystemExit(1)
