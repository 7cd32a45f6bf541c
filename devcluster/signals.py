"""Forwards termination signals to child processes, so that this process can clean up after they end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Collection, Iterator, Sequence
from types import FrameType


@contextlib.contextmanager
def forwarding(
    processes: Sequence[subprocess.Popen[bytes]],
    numbers: Collection[signal.Signals],
    *,
    ignored: Collection[signal.Signals] = (),
) -> Iterator[list[int]]:
    """Forwards these signals to all `processes`, ignores others, and yields the list of those received.

    `processes` may grow meanwhile. The former handlers return at the end.
    """
    received: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for process in processes:
            process.send_signal(number)

    def ignore(_number: int, _frame: FrameType | None) -> None:
        """A handler, because a child process would inherit SIG_IGN."""

    handlers = {**dict.fromkeys(numbers, forward), **dict.fromkeys(ignored, ignore)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
