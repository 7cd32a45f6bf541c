"""Prints the steps of a command, their usual duration and the elapsed time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

_TICK_TERMINAL = 1.0
_TICK_FILE = 20.0


@dataclass
class Step:
    """A running step. `detail` may be set while it runs; it is shown beside the elapsed time."""

    title: str
    started: float = field(default_factory=time.monotonic)
    detail: str = ""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started


class Progress:
    """Writes one line for each step. A long step has a live line, or in a file a new line every 20 s."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._quiet = quiet
        self._terminal = self._stream.isatty()
        self._lock = threading.Lock()

    def print(self, text: str) -> None:
        if self._quiet:
            return
        with self._lock:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    @contextmanager
    def step(self, title: str, *, usual: str = "") -> Iterator[Step]:
        """Prints `title` with the usual duration `usual`, then the actual duration or the failure."""
        step = Step(title)
        if usual:
            self.print(f"  … {title} (usually {usual})")
        done = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, done), daemon=True)
        ticker.start()
        try:
            yield step
        except BaseException:
            self._end(done, ticker)
            self.print(f"  ✗ {title}, after {step.elapsed:.1f} s")
            raise
        self._end(done, ticker)
        self.print(f"  ✓ {title} ({step.elapsed:.1f} s)")

    def _tick(self, step: Step, done: threading.Event) -> None:
        while not done.wait(_TICK_TERMINAL if self._terminal else _TICK_FILE):
            if self._quiet:
                continue
            detail = f", {step.detail}" if step.detail else ""
            line = f"    {step.title}: {step.elapsed:.0f} s{detail}"
            with self._lock:
                self._stream.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
                self._stream.flush()

    def _end(self, done: threading.Event, ticker: threading.Thread) -> None:
        done.set()
        ticker.join()
        if self._terminal and not self._quiet:
            with self._lock:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
