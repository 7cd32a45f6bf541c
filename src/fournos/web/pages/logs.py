"""The log of a job: the last lines or any part, with search; and as a file."""

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
from fournos.web.routes import Call, Content, Download, Page
from fournos.web.runs.lines import Window
from fournos.web.runs.parts import part
from fournos.web.runs.spans import live_tasks
from fournos.web.runs.subject import JobSubject, subject

LINES: Final = 500
"""Lines of a page."""
_PATIENCE: Final = 20.0
"""Seconds for reading a whole log."""
_BATCH: Final = 32_768
"""Bytes that are sent together."""


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
        "file": about.address("logs/file", **logs.query),
        "lasts": bool(first or search) or not about.live or is_terminal(about.raw),
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


def _lines(call: Call, about: JobSubject, logs: ChosenLogs) -> AsyncIterator[LogLine]:
    return AsyncJob(call.viewer.client, about.raw).logs(
        task=logs.task or None, attempt=logs.attempt or None, resolver=logs.resolver
    )


async def _fill(window: Window, lines: AsyncIterator[LogLine]) -> None:
    async with aclosing(cast(Any, lines)) as found:
        async for line in found:
            window.feed(line)


async def open_file(call: Call) -> Content:
    """The whole log, as it was printed."""
    about, wanted = await subject(call), selection(call.query)
    name = "-".join(filter(None, (name_of(about.raw), wanted.task, "resolver" if wanted.resolver else "")))
    return Content(_printed(_lines(call, about, wanted)), f"{name}.log")


async def _printed(lines: AsyncIterator[LogLine]) -> AsyncIterator[bytes]:
    """Yields the lines, many together."""
    batch = bytearray()
    async with aclosing(cast(Any, lines)) as found:
        async for line in found:
            if not line.notice:
                batch += f"[{line.source}] {line.text}\n".encode("utf-8", "replace")
            if len(batch) >= _BATCH:
                yield bytes(batch)
                batch.clear()
    yield bytes(batch)


PAGE: Final = Page(
    name="logs",
    title="Logs of {name}",
    path="/jobs/{namespace}/{name}/logs",
    gather=gather,
    watched=(FOURNOS_JOB,),
    fresh=5.0,
    in_nav=False,
    shared=False,
)
DOWNLOADS: Final = (Download(name="log file", path="/jobs/{namespace}/{name}/logs/file", open=open_file),)
