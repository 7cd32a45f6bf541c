"""A collector on a kubelet and stores in memory, and what outlives its process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fournos.engine.kube.resource import Key
from fournos.history.logs.collector import LogCollector
from fournos.history.logs.limits import LogLimits
from fournos.history.logs.models import StartedContainer, StoredLine
from fournos.history.logs.pages import LogReader, LogSelection
from tests.unit.history.logs.kubelet import RUN, Kubelet, LoopClock, MemoryBlobs, MemoryRows, ended

KEY = Key("bench", "job")


class Stage:
    """Everything that outlives a process, and the collector of the present one."""

    def __init__(self) -> None:
        self.kubelet, self.rows, self.blobs = Kubelet(), MemoryRows(), MemoryBlobs()
        self.finished: list[Key] = []
        self.limits = LogLimits()
        self.streams = 10
        self.collector: LogCollector

    @asynccontextmanager
    async def process(self, *, others: int = 0) -> AsyncIterator[LogCollector]:
        """A process; at its end it is killed: nothing is stored any more.  `others` have so many streams."""

        async def rows() -> MemoryRows:
            return self.rows

        self.collector = made = LogCollector(
            rows,
            self.blobs,
            self.limits,
            LoopClock(),
            streams=self.streams,
            finished=self.finished.append,
        )
        task = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert self.kubelet.open == others, "a stream is left over"

    def follow(self, *containers: StartedContainer) -> None:
        self.collector.follow(KEY, RUN, containers, self.kubelet)

    def end(self, one: StartedContainer, code: int = 0) -> StartedContainer:
        """The container ends; its log is over, and the watch shows it."""
        self.kubelet.end(one)
        over = ended(one, code)
        self.follow(over)
        return over

    @property
    def done(self) -> bool:
        return all(one.done for one in self.collector.known(RUN.uid).values())

    async def lines(self, selection: LogSelection | None = None) -> list[str]:
        return [line.text for line in await self.stored(selection)]

    async def stored(self, selection: LogSelection | None = None) -> list[StoredLine]:
        logs = (selection or LogSelection()).of(await self.rows.logs(RUN))
        reader = LogReader(self.rows, self.blobs, RUN, logs, over=False)
        return [line async for line in reader.lines(1, reader.total + 1)]
