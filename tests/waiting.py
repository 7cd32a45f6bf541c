"""Waits for what another process does. Neither clusters nor operators report it, so the state is polled."""

from __future__ import annotations

import asyncio
import inspect
import socket
import time
from collections.abc import Callable
from typing import Any

Message = str | Callable[[], str]
"""The text of the failure; a function is called after the limit, so that it describes the last state."""


async def until(
    look: Callable[[], Any],
    message: Message = "the condition does not hold",
    *,
    limit: float = 30.0,
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
    limit: float = 60.0,
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
    """A TCP port of 127.0.0.1 on which no process listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _text(message: Message) -> str:
    return message if isinstance(message, str) else message()
