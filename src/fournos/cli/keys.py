"""Reads keys from a terminal, one at a time and without echo."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
}
"""What terminals send for keys without a character."""
_CONTROLS: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
    "\x03": "interrupt",
    "\x04": "interrupt",
}


def parse(text: str) -> Iterator[str]:
    """Yields the keys of what one read returned; a sequence that is not known is left out.

    A terminal sends the bytes of a key together, so an escape at the end of the text is the key Esc.
    """
    rest = text
    while rest:
        escape = next((sequence for sequence in _SEQUENCES if rest.startswith(sequence)), "")
        if escape:
            yield _SEQUENCES[escape]
            rest = rest[len(escape) :]
        elif rest[0] == "\x1b" and rest[1:2] in ("[", "O"):
            end = next((index for index, one in enumerate(rest[2:], 2) if "@" <= one <= "~"), len(rest) - 1)
            rest = rest[end + 1 :]
        else:
            key = _CONTROLS.get(rest[0], rest[0])
            if key.isprintable():
                yield key
            rest = rest[1:]


@contextmanager
def reading(on_key: Callable[[str], None]) -> Iterator[None]:
    """Calls `on_key` for each key that is pressed, and gives the terminal back as it was."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        data = os.read(descriptor, 1024)
        for key in parse(data.decode(errors="ignore")) if data else ("interrupt",):
            on_key(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
