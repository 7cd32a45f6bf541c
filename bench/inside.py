"""Runs the operator with a clock that can be set, and with caches that can be read: `python -m bench.inside`.

The process is the operator's own, started with the arguments of `python -m fournos`.  Its environment names a
directory, in DIRECTORY.  The wall clock is off by the seconds in the file `CLOCK` there; monotonic time is
untouched, as it is when a machine's clock is set.  At a SIGUSR1 the process writes what its caches have to
`caches-PID.json`.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import astuple
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Final

from fournos.cli import main
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.informers import Feed, Informers

DIRECTORY: Final = "BENCH_INSIDE"
CLOCK: Final = "clock"


def caches_file(directory: Path, pid: int) -> Path:
    return directory / f"caches-{pid}.json"


def replace(file: Path, text: str) -> None:
    """Writes the file so that a reader never sees a part of it."""
    part = file.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def _off(now: Callable[[SystemClock], datetime], file: Path) -> Callable[[SystemClock], datetime]:
    def off(clock: SystemClock) -> datetime:
        return now(clock) + timedelta(seconds=float(file.read_text()) if file.exists() else 0.0)

    return off


def _remembered(fill: Callable[[Informers, Feed], None], feeds: list[Feed]) -> Callable[..., None]:
    def remember(informers: Informers, feed: Feed) -> None:
        fill(informers, feed)
        feeds.append(feed)

    return remember


def _content(feed: Feed) -> dict[str, Any]:
    return {
        "resource": astuple(feed.watch.resource),
        "namespace": feed.watch.namespace,
        "selector": feed.watch.selector,
        "relists": feed.reflector.relists,
        "objects": {each["metadata"]["uid"]: each["metadata"].get("resourceVersion") for each in feed.store},
    }


def run() -> None:
    directory = Path(os.environ[DIRECTORY])
    feeds: list[Feed] = []
    patched_clock: Any = SystemClock
    patched_clock.now = _off(SystemClock.now, directory / CLOCK)
    patched_informers: Any = Informers
    patched_informers._fill = _remembered(Informers._fill, feeds)

    def answer(_signal: int, _frame: FrameType | None) -> None:
        replace(caches_file(directory, os.getpid()), json.dumps([_content(feed) for feed in feeds]))

    signal.signal(signal.SIGUSR1, answer)
    main()


if __name__ == "__main__":
    run()
