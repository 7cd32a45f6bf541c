"""The steps of the recorder that read and write the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.decision import Custom
from fournos.history.logs.stored import ContainerLog
from fournos.history.recorder.journal import Journal, StoredRun
from fournos.history.records import Document, Ending, Identity, Interval, Record

if TYPE_CHECKING:
    from fournos.engine.kube.client import Client
    from fournos.history.logs.collector import LogCollector
    from fournos.history.recorder.database import DatabaseArchive


@dataclass(frozen=True, slots=True)
class LoadOpen(Custom):
    """Reads the open runs that earlier processes recorded."""

    cluster: str
    kind: str


@dataclass(frozen=True, slots=True)
class Load(Custom):
    """Reads one run that may be recorded already."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class Write(Custom):
    """Commits a record."""

    foreseen = True
    record: Record
    digest: bytes
    versions: tuple[str, ...] = ()
    gone: bool = False
    """True: the object does not exist any more, so the journal forgets the run."""


@dataclass(frozen=True, slots=True)
class Compare(Custom):
    """Compares the results of a run that has ended with those of earlier runs."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class Remember(Custom):
    """Keeps a changed ledger and quota in memory until the next write of their run."""

    foreseen = True
    identity: Identity
    waits: tuple[Interval, ...]
    quota: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Forget(Custom):
    """Drops a run that is over and whose object is gone."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class StoreLogs(Custom):
    """Stores the logs of ended containers in the background."""

    key: Key
    identity: Identity
    containers: tuple[ContainerLog, ...]


@dataclass(frozen=True, slots=True)
class _Steps:
    """What the steps do, each by a method."""

    archive: DatabaseArchive
    journal: Journal
    clock: Clock
    wrote: Callable[[Record, bool], None]
    logs: LogCollector | None
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load_open(self, step: LoadOpen, api: Api) -> None:
        async with self.loading:
            if self.journal.since is not None:
                return
            records = [record async for record in self.archive.open_records(step.cluster, step.kind)]
            self.journal.opened(records, self.clock.now())

    async def load(self, step: Load, api: Api) -> None:
        run = await self.archive.get(step.identity)
        if run is None:
            self.journal.missing(step.identity)
            return
        waits = await self.archive.waits(step.identity)
        self.journal.put(StoredRun(run, waits, resumed=run.ending is Ending.OPEN))

    async def write(self, step: Write, api: Api) -> None:
        taken = await self.archive.record(step.record)
        self.journal.written_at = step.record.run.observed_at
        self.wrote(step.record, taken)
        if step.gone:
            self._forget_run(step.record.run.identity)
        else:
            quota = step.record.documents.get(Document.QUOTA) or {}
            stored = StoredRun(step.record.run, step.record.waits, step.digest, step.versions, quota)
            self.journal.put(stored)

    async def compare(self, step: Compare, api: Api) -> None:
        self.journal.compared(step.identity, await self.archive.suspected(step.identity))

    async def remember(self, step: Remember, api: Api) -> None:
        self.journal.remember(step.identity, step.waits, step.quota)

    async def forget(self, step: Forget, api: Api) -> None:
        self._forget_run(step.identity)

    def _forget_run(self, identity: Identity) -> None:
        self.journal.forget(identity)
        if self.logs is not None:
            self.logs.forget(identity.uid)

    async def store_logs(self, step: StoreLogs, api: Api) -> None:
        assert self.logs is not None
        # `Api` has no logs in pieces; the client that it is has.
        self.logs.store(step.key, step.identity, step.containers, cast("Client", api))


def executors(
    archive: DatabaseArchive,
    journal: Journal,
    clock: Clock,
    wrote: Callable[[Record, bool], None],
    logs: LogCollector | None = None,
) -> Mapping[type[Custom], Executor]:
    """Returns the executors; `wrote` is called with each record and whether the store took it."""
    steps = _Steps(archive, journal, clock, wrote, logs)
    made: dict[type[Custom], Callable[..., Awaitable[None]]] = {
        LoadOpen: steps.load_open,
        Load: steps.load,
        Write: steps.write,
        Compare: steps.compare,
        Remember: steps.remember,
        Forget: steps.forget,
        StoreLogs: steps.store_logs,
    }
    return made
