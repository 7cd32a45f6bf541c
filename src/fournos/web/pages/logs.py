"""The log of a job: the last lines or any part, with search; the stream that scripts append; the file."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, cast

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.jobs import AsyncJob
from fournos.client.logs import LogLine
from fournos.insight.children import children
from fournos.insight.values import is_terminal, name_of, phase_of, status_of
from fournos.web.errors import PageError
from fournos.web.routes import Call, Content, Page, Stream
from fournos.web.runs.lines import ShownLine, Window, as_text, plain
from fournos.web.runs.parts import part
from fournos.web.runs.spans import live_tasks
from fournos.web.runs.subject import JobSubject, subject

LINES: Final = 500
"""Lines of a page."""
FOLLOWED: Final = 20_000
"""Lines that a script keeps in the page: the search of the browser finds them."""
_PATIENCE: Final = 20.0
"""Seconds for reading a whole log."""
_BATCH: Final = 32_768
"""Bytes that are sent together."""
_PAUSE: Final = 0.1
"""Seconds after which lines are sent although few have come."""


@dataclass(frozen=True, slots=True)
class ChosenLogs:
    """Which logs of a job are shown."""

    task: str = ""
    attempt: int = 0
    resolver: bool = False

    @property
    def query(self) -> dict[str, str]:
        return {
            "task": self.task,
            "attempt": str(self.attempt or ""),
            "resolver": "yes" if self.resolver else "",
        }


def selection(query: Mapping[str, str]) -> ChosenLogs:
    return ChosenLogs(query.get("task", ""), _number(query, "attempt"), query.get("resolver") == "yes")


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise PageError(422, "Not a number", f"{name}: {text!r} is not a number.", "Write a whole number.")
    return int(text)


async def gather(call: Call) -> Mapping[str, Any]:
    about, logs = await subject(call), selection(call.query)
    line = _number(call.query, "line")
    first = max(1, line - LINES // 4) if line else _number(call.query, "from")
    search = call.query.get("q", "").strip()[:200]
    window = Window(LINES, first, search, failed=phase_of(about.raw) == "Failed")
    read, named = await asyncio.gather(
        part(_fill(window, _lines(call, about, logs)), patience=_PATIENCE), part(_tasks(call, about))
    )
    return {
        "about": about,
        "name": name_of(about.raw),
        "namespace": about.namespace,
        "wanted": logs,
        "window": window,
        "read": read,
        "line": line,
        "search": search,
        "tasks": named.value or sorted({one.partition("/")[0] for one in window.sources}),
        "attempts": [int(one.get("number") or 0) for one in status_of(about.raw).get("attempts") or ()],
        "here": lambda **query: about.address(
            "logs", **logs.query, **{k: str(v or "") for k, v in query.items()}
        ),
        "stream": about.address("logs/stream", **logs.query),
        "file": about.address("logs/file", **logs.query),
        "whole": not first and not search,
        "follows": about.live and not is_terminal(about.raw),
        "followed": FOLLOWED,
        "lines": LINES,
        "command": command(about, logs),
    }


def command(about: JobSubject, logs: ChosenLogs) -> str:
    """The command line that prints the lines that are chosen; people copy it, so names are quoted."""
    chosen = ["--resolver"] if logs.resolver else ["--task", logs.task] if logs.task else []
    chosen += ["--attempt", str(logs.attempt)] if logs.attempt else []
    return shlex.join(["fournos", "logs", "-f", "-n", about.namespace, name_of(about.raw), *chosen])


async def _tasks(call: Call, about: JobSubject) -> list[str]:
    """The tasks of the current attempt that have begun."""
    found = await children(call.viewer.client.api, about.raw)
    run = str(status_of(about.raw).get("pipelineRun") or "")
    return [task.name for task in live_tasks(found).get(run, ()) if task.started]


def _lines(
    call: Call, about: JobSubject, logs: ChosenLogs, *, follow: bool = False
) -> AsyncIterator[LogLine]:
    return AsyncJob(call.viewer.client, about.raw).logs(
        follow=follow, task=logs.task or None, attempt=logs.attempt or None, resolver=logs.resolver
    )


async def _fill(window: Window, lines: AsyncIterator[LogLine]) -> None:
    async with aclosing(cast(Any, lines)) as found:
        async for line in found:
            window.feed(line)


# --- the stream and the file --------------------------------------------------------------------------------


async def open_stream(call: Call) -> Content:
    """Lines from `from` on; with `follow` until the job ends."""
    about, wanted = await subject(call), selection(call.query)
    follow = call.query.get("follow") == "yes" and about.live
    lines = _lines(call, about, wanted, follow=follow)
    return Content(_batches(_numbered(lines, _number(call.query, "from"))))


async def _numbered(lines: AsyncIterator[LogLine], first: int) -> AsyncIterator[bytes]:
    number = 0
    async with aclosing(cast(Any, lines)) as found:
        async for line in found:
            number += not line.notice
            if number >= first:
                yield as_text(ShownLine(0 if line.notice else number, line.source, plain(line.text)))


async def open_file(call: Call) -> Content:
    """The whole log, as it was printed."""
    about, wanted = await subject(call), selection(call.query)
    name = "-".join(filter(None, (name_of(about.raw), wanted.task, "resolver" if wanted.resolver else "")))
    return Content(_batches(_printed(_lines(call, about, wanted))), f"{name}.log")


async def _printed(lines: AsyncIterator[LogLine]) -> AsyncIterator[bytes]:
    async with aclosing(cast(Any, lines)) as found:
        async for line in found:
            if not line.notice:
                yield f"[{line.source}] {line.text}\n".encode("utf-8", "replace")


async def _batches(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Joins pieces that come within a short time, so that many short lines are few writes."""
    queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(maxsize=1024)
    reading = asyncio.create_task(_into(queue, pieces))
    try:
        while (piece := await queue.get()) is not None:
            waiting = bytearray()
            while True:
                if isinstance(piece, Exception):
                    if waiting:
                        yield bytes(waiting)
                    raise piece
                waiting += piece
                if len(waiting) >= _BATCH:
                    break
                try:
                    async with asyncio.timeout(_PAUSE):
                        piece = await queue.get()
                except TimeoutError:
                    break
                if piece is None:
                    yield bytes(waiting)
                    return
            yield bytes(waiting)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _into(queue: asyncio.Queue[bytes | Exception | None], pieces: AsyncIterator[bytes]) -> None:
    try:
        async with aclosing(cast(Any, pieces)) as found:
            async for piece in found:
                await queue.put(piece)
    except Exception as error:
        await queue.put(error)
    await queue.put(None)


PAGE: Final = Page(
    name="logs",
    title="Logs of {name}",
    path="/jobs/{namespace}/{name}/logs",
    gather=gather,
    in_nav=False,
    shared=False,
)
STREAMS: Final = (
    Stream(name="log lines", path="/jobs/{namespace}/{name}/logs/stream", open=open_stream, of=FOURNOS_JOB),
    Stream(name="log file", path="/jobs/{namespace}/{name}/logs/file", open=open_file, of=FOURNOS_JOB),
)
