"""Waits for what another process does. Neither clusters nor operators report it, so the state is polled."""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

LIMIT: Final = 120.0
"""Seconds. What a quiet machine does in one may take far longer beside another lane of tests: a limit ends
what never comes, and measures nothing."""

_PORTS: Final = range(20_000, 32_000)
Message = str | Callable[[], str]
"""The text of the failure; a function is called after the limit, so that it describes the last state."""


async def until(
    look: Callable[[], Any],
    message: Message = "the condition does not hold",
    *,
    limit: float = LIMIT,
    pause: float = 0.05,
    report: Callable[[], str] = str,
) -> Any:
    """Returns the first true result of `look`, which may be asynchronous.

    Raises AssertionError after `limit` seconds of the event loop, with the message and `report`.
    """
    try:
        async with asyncio.timeout(limit) as timer:
            while True:
                found = look()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(pause)
    except TimeoutError:
        if not timer.expired():  # raised by `look`
            raise
        raise AssertionError(f"{_text(message)}, after {limit:g} s\n{report()}") from None


async def seconds_until(look: Callable[[], Any], message: Message = "", **options: Any) -> float:
    """Waits as `until` does and returns how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await until(look, message, **options)
    return loop.time() - began


def blocking_until(
    look: Callable[[], Any],
    message: Message = "the condition does not hold",
    *,
    limit: float = LIMIT,
    pause: float = 0.25,
) -> Any:
    """The same for tests without an event loop. `look` is not interrupted."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(pause)
    raise AssertionError(f"{_text(message)}, after {limit:g} s")


def free_port() -> int:
    """A TCP port of 127.0.0.1 for a program that is about to listen, of this test process alone.

    The kernel takes ports for outgoing connections from 32768 on: one from there may be in use again before
    the program listens. A lock that lasts as long as this process keeps the port from tests side by side.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        if _reserved(port):
            return port
    raise AssertionError("no port is free")


def _reserved(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / "fournos-test-ports"
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(descriptor)
        return False
    return True  # the descriptor stays open, and with it the lock


def _text(message: Message) -> str:
    return message if isinstance(message, str) else message()
