"""The log of a job: the last lines or any part, with search; and as a file."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, cast

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.jobs import AsyncJob
from fournos.client.logs import LogLine
from fournos.engine.api.values import escaped_line
from fournos.history.logs.stored import FailingLine
from fournos.insight.children import children
from fournos.insight.values import is_terminal, name_of, phase_of, status_of
from fournos.web.errors import PageError
from fournos.web.runs.subject import JobSubject, part, subject
from fournos.web.runs.timeline import live_tasks
from fournos.web.site import Call, Content, Download, Page

LONGEST: Final = 4_000
"""Characters of a line that are shown."""
MATCHES: Final = 500
"""Lines that a search shows."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Terminal sequences: of colours and movements, and of titles."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    number: int
    """From 1; 0 if it is not known."""
    source: str
    text: str
    notice: bool = False
    """True for what is not part of the log."""


def plain(text: str) -> str:
    """The text without terminal sequences; other control characters are visible, long lines are cut."""
    line = escaped_line(_COLOUR.sub("", text).replace("\t", "    ").rstrip("\r"))
    if len(line) <= LONGEST:
        return line
    return f"{line[:LONGEST]}… ({len(line) - LONGEST} characters more: download the log)"


@dataclass(slots=True)
class Window:
    """Takes all lines of a log one by one, and keeps those of a part of it."""

    most: int
    first: int = 0
    """The number of the first line that is kept; 0: the last lines are kept."""
    search: str = ""
    tail: bool = False
    """True if it is given only the last lines: their numbers are not known."""
    total: int = 0
    failed: bool = False
    """True for the log of a job that has failed."""
    matches: list[ShownLine] = field(default_factory=list)
    more_matches: int = 0
    kept: deque[ShownLine] = field(default_factory=deque)
    sources: dict[str, None] = field(default_factory=dict)
    _failing: FailingLine = field(default_factory=FailingLine)

    def feed(self, line: LogLine) -> None:
        if line.notice:
            self._keep(ShownLine(0, line.source, plain(line.text), notice=True))
            return
        self.total += 1
        self.sources[line.source] = None
        self._failing.feed(self.total, line.text)
        if self.search and self.search.lower() in line.text.lower():
            self._match(line)
        if not self.first or self.first <= self.total < self.first + self.most:
            self._keep(ShownLine(0 if self.tail else self.total, line.source, plain(line.text)))

    @property
    def error(self) -> int:
        """The number of the first line that shows why the job failed; 0 if it did not fail."""
        found = self._failing.found if self.failed else None
        return found[0] if found else 0

    def _match(self, line: LogLine) -> None:
        if len(self.matches) < MATCHES:
            self.matches.append(ShownLine(self.total, line.source, plain(line.text)))
        else:
            self.more_matches += 1

    def _keep(self, line: ShownLine) -> None:
        self.kept.append(line)
        if len(self.kept) > self.most:
            self.kept.popleft() if not self.first else self.kept.pop()

    @property
    def start(self) -> int:
        """The number of the first kept line; 0 without one."""
        return next((line.number for line in self.kept if line.number), 0)

    @property
    def end(self) -> int:
        """The number of the last kept line; 0 without one."""
        return next((line.number for line in reversed(self.kept) if line.number), 0)


# --- the page -------------------------------------------------------------------------------------


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
    # An open tab asks again and again: for the last lines alone.
    goes_on = about.live and not is_terminal(about.raw) and not (first or search)
    window = Window(LINES, first, search, tail=goes_on, failed=phase_of(about.raw) == "Failed")
    lines = _lines(call, about, logs, tail=LINES if goes_on else None)
    read, named = await asyncio.gather(
        part(_fill(window, lines), patience=_PATIENCE), part(_tasks(call, about))
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
        "lasts": not goes_on,
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
    call: Call, about: JobSubject, logs: ChosenLogs, tail: int | None = None
) -> AsyncIterator[LogLine]:
    return AsyncJob(call.viewer.client, about.raw).logs(
        task=logs.task or None, attempt=logs.attempt or None, resolver=logs.resolver, tail=tail
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
