"""flux uptime.

Pods are probed with it, and real flux starts no Python for it.  So this imports as little as possible:
`typing`, `socket` and `json` each cost as much as the start of Python.
"""

from __future__ import annotations

import os
import sys
import time
from _socket import AF_UNIX, socket


def uptime(words: list[str]) -> int:
    """Asks the broker of this rank for its state, and rank 0 for the rest only if that is `run`."""
    answer = _ask("state")
    state, size = _text_of(answer, "state"), _text_of(answer, "size")
    lost = drained = 0
    if state == "run":
        import json

        ranks = json.loads(_ask("ranks"))["ranks"]
        lost = sum(not rank["up"] for rank in ranks)
        drained = sum(rank["drained"] is not None for rank in ranks)
    text = f" {time.strftime('%H:%M:%S')} {state} 1s,  owner {os.getuid()},  depth 0,  size {size}"
    print(text + (f",  {drained} drained" if drained else "") + (f",  {lost} offline" if lost else ""))
    return 0


def _ask(operation: str) -> str:
    """The broker's one answer, a line of JSON.  Ends the program with the broker's error."""
    uri = os.environ.get("FLUX_URI", "")
    if not uri.startswith("local://"):
        _die(f"unable to connect to Flux: {uri or 'FLUX_URI is not set'}: No such file or directory")
    scope = os.environ.get("FLUX_STANDIN_SCOPE", "")
    broker = socket(AF_UNIX)
    try:
        broker.connect(uri.removeprefix("local://"))
    except OSError as error:
        _die(f"unable to connect to Flux: {uri}: {error.strerror}")
    broker.sendall(f'{{"op": "{operation}", "scope": "{scope}"}}\n'.encode())
    line = b""
    while not line.endswith(b"\n"):
        part = broker.recv(1 << 16)
        if not part:
            _die("lost contact with the broker")
        line += part
    answer = line.decode()
    if '"error": "' in answer:
        _die(_text_of(answer, "error"))
    return answer


def _text_of(answer: str, field: str) -> str:
    """A number, or a text without quotes in it, of one line of JSON."""
    rest = answer.partition(f'"{field}": ')[2]
    return rest[1:].partition('"')[0] if rest.startswith('"') else rest.split(",")[0].rstrip("}\n")


def _die(message: str) -> None:
    print(f"flux-uptime: {message}", file=sys.stderr, flush=True)
    raise SystemExit(1)
