"""The log lines of a job: those that its pods have now, all until it ends, or those of the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, cast

from fournos.api.kinds import PIPELINE_RUN, TASK_RUN
from fournos.api.phase import UNQUEUED
from fournos.client.errors import (
    MissingError,
    NoHistoryError,
    NoLogError,
    NotAllowedError,
    UnreachableError,
)
from fournos.client.watches import Follower, Watches
from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ConnectionLostError, InvalidError, NotFoundError
from fournos.engine.kube.resource import JOB, POD, Obj
from fournos.insight.children import Children, children
from fournos.insight.failure import LogSource, WantedLogs, nothing, sources
from fournos.insight.values import is_terminal, name_of, phase_of

if TYPE_CHECKING:
    from fournos.client.connection import ClientConnection


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log, or a notice about the log."""

    source: str
    """The task that printed the line, or task/step if the task has several steps; "" for a general notice."""
    text: str
    notice: bool = False
    """True if the line is not part of the log but about it: the pod is gone, or lines may be missing."""


class LogSelection(TypedDict, total=False):
    """Which logs of a run are meant; all of the newest attempt without any."""

    task: str
    container: str
    attempt: int | None
    resolver: bool
    """The log of the resolver, which runs before the first attempt."""


async def lines_or(error: Exception, lines: AsyncIterator[LogLine]) -> AsyncGenerator[LogLine, None]:
    """Yields the lines of the history.  Raises `error` if it has none, or may not be read."""
    printed = False
    try:
        async for line in lines:
            printed = True
            yield line
    except (MissingError, NoHistoryError, NoLogError, NotAllowedError, UnreachableError):
        if printed:
            raise
    if not printed:
        raise error


async def live_lines(
    client: ClientConnection, job: Obj, asked: WantedLogs, tail: int | None, *, follow: bool
) -> AsyncIterator[LogLine]:
    """Yields what the pods of a job have; while it is being resolved, the lines of the resolver first.

    Those of a dispatched job are read on its worker.  Raises NoLogError.
    """
    from fournos.client.connection import manager_of
    from fournos.insight.dispatch import is_dispatched, on_worker

    async with AsyncExitStack() as stack:
        api, watches = client.api, client.watches
        if is_dispatched(job):
            api, job = await stack.enter_async_context(on_worker(manager_of(client), job))
            watches = Watches(api)
        logs = asked.in_phase_of(job, follow=follow)
        lines = (
            followed_lines(api, job, logs, tail, watches)
            if follow and not is_terminal(job)
            else printed_lines(api, job, logs, tail)
        )
        async with aclosing(cast(Any, lines)) as found:
            async for line in found:
                yield line


async def container_lines(
    api: Api, source: LogSource, tail: int | None, *, follow: bool
) -> AsyncIterator[LogLine]:
    """Yields the log of one container.  A missing pod and a lost connection yield a notice, not an error."""
    try:
        async for line in await api.logs(source.pod, container=source.container, tail=tail, follow=follow):
            yield LogLine(source.prefix, line)
    except (NotFoundError, InvalidError):
        yield LogLine(source.prefix, "its pod is gone, and the log with it", notice=True)
    except ConnectionLostError:
        yield LogLine(source.prefix, "the connection was lost; lines may be missing", notice=True)


async def printed_lines(api: Api, job: Obj, logs: WantedLogs, tail: int | None) -> AsyncIterator[LogLine]:
    """Yields the lines that exist now, one container after the other.  Raises NoLogError."""
    dependents = await children(api, job)
    asked = sources(job, dependents, logs)
    if not asked:
        raise nothing(job, dependents, logs)
    printed = False
    for source in asked:
        if source.started:
            async for line in container_lines(api, source, tail, follow=False):
                printed = printed or not line.notice
                yield line
    if not printed:
        text = "No lines yet: the containers have not begun. Wait for them with -f."
        yield LogLine("", text, notice=True)


async def followed_lines(
    api: Api, job: Obj, logs: WantedLogs, tail: int | None, watches: Watches
) -> AsyncIterator[LogLine]:
    """Yields the lines of each container from its start, until the job, or its resolve phase, has ended.

    Raises NoLogError if no container had started by then.  The queue holds one line: a slow consumer slows
    the readers down, so that memory stays bounded.
    """
    lines: asyncio.Queue[LogLine | None] = asyncio.Queue(maxsize=1)
    reading = asyncio.create_task(_Reading(api, logs, tail, lines).run(job, watches))
    try:
        while (line := await lines.get()) is not None:
            yield line
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class _Reading:
    """Reads all containers concurrently into one queue; None marks the end."""

    def __init__(
        self, api: Api, logs: WantedLogs, tail: int | None, lines: asyncio.Queue[LogLine | None]
    ) -> None:
        self._api = api
        self._wanted = logs
        self._tail = tail
        self._lines = lines
        self._readers: dict[LogSource, asyncio.Task[None]] = {}

    async def run(self, job: Obj, watches: Watches) -> None:
        try:
            job = await self._to_end(job, watches)
            # The watch event of the job's end may arrive before that of a short-lived container, so a live
            # list finds the containers that the caches have not seen.
            dependents = await children(self._api, job)
            self._start(job, dependents)
            await asyncio.gather(*self._readers.values())
            if not self._readers:
                raise nothing(job, dependents, self._wanted)
            await self._lines.put(LogLine("", f"{name_of(job)} is {phase_of(job)}.", notice=True))
        finally:
            for reader in self._readers.values():
                reader.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)
            if not (task := asyncio.current_task()) or not task.cancelling():
                await self._lines.put(None)

    async def _to_end(self, job: Obj, watches: Watches) -> Obj:
        warned = False
        kinds = (JOB, PIPELINE_RUN, TASK_RUN, POD)
        async with Follower(self._api, job, kinds, watches=watches) as follower:
            while True:
                job = follower.job
                asked = self._start(job, follower.children)
                resolved = phase_of(job) not in UNQUEUED
                if is_terminal(job) or (not self._wanted.tasks and resolved):
                    return job
                if not asked and not warned:
                    warned = True
                    text = f"{name_of(job)} is {phase_of(job)}: waiting for the first line."
                    await self._lines.put(LogLine("", text, notice=True))
                await follower.change()

    def _start(self, job: Obj, found: Children) -> list[LogSource]:
        asked = sources(job, found, self._wanted)
        for source in asked:
            if source.started and source not in self._readers:
                self._readers[source] = asyncio.create_task(self._read(source))
        return asked

    async def _read(self, source: LogSource) -> None:
        async for line in container_lines(self._api, source, self._tail, follow=True):
            await self._lines.put(line)
