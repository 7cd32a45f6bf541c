"""A program that updates runs, and is killed by kill -9 before each of its statements in turn.

It makes one process for each: `python -m tests.store.killed_writer URL`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from fournos.history.records import Document, Record
from fournos.history.store import HistoryStore
from tests.history import a_run, ended


def before(number: int) -> Record:
    run = a_run(number, labels={"state": "before", "old": "1"})
    return Record(run, {Document.OBJECT: {"state": "before"}})


def after(number: int) -> Record:
    run = ended(a_run(number, labels={"state": "after", "new": "1"}), message="after")
    return Record(run, {Document.OBJECT: {"state": "after"}, Document.EVENTS: [{"state": "after"}]})


async def update(url: str, number: int) -> None:
    """Records a run, then its update, and is killed before the statement of that number of the update."""
    async with await HistoryStore.open(url) as store:
        await store.record(before(number))
        statements = count(1)

        def kill(*_arguments: Any) -> None:
            if next(statements) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        for name in ("before_cursor_execute", "commit"):
            event.listen(Engine, name, kill)
        await store.record(after(number))


def main(url: str) -> None:
    for number in count(1):
        child = os.fork()
        if child == 0:
            asyncio.run(update(url, number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(number, os.waitstatus_to_exitcode(status), flush=True)
        if status == 0:
            return


if __name__ == "__main__":
    main(sys.argv[1])
