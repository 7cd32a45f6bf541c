"""The steps of the recorder that read and write the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fournos.engine.kube.api import Api
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.steps import Custom
from fournos.history.logs.followed import FollowLogs
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

    identity: Identity
    waits: tuple[Interval, ...]
    quota: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Forget(Custom):
    """Drops a run that is over and whose object is gone."""

    identity: Identity


def executors(
    archive: DatabaseArchive,
    journal: Journal,
    clock: Clock,
    wrote: Callable[[Record, bool], None],
    logs: LogCollector | None = None,
) -> Mapping[type[Custom], Executor]:
    """Returns the executors; `wrote` is called with each record and whether the store took it."""
    loading = asyncio.Lock()

    async def load_open(step: LoadOpen, api: Api) -> None:
        async with loading:
            if journal.since is not None:
                return
            records = [record async for record in archive.open_records(step.cluster, step.kind)]
            journal.opened(records, clock.now())

    async def load(step: Load, api: Api) -> None:
        run = await archive.get(step.identity)
        if run is not None:
            journal.put(StoredRun(run, await archive.waits(step.identity), resumed=run.ending is Ending.OPEN))
        else:
            journal.missing(step.identity)

    async def write(step: Write, api: Api) -> None:
        taken = await archive.record(step.record)
        journal.written_at = step.record.run.observed_at
        wrote(step.record, taken)
        if step.gone:
            forget_run(step.record.run.identity)
        else:
            quota = step.record.documents.get(Document.QUOTA) or {}
            journal.put(StoredRun(step.record.run, step.record.waits, step.digest, step.versions, quota))

    async def compare(step: Compare, api: Api) -> None:
        journal.compared(step.identity, await archive.suspected(step.identity))

    async def remember(step: Remember, api: Api) -> None:
        journal.remember(step.identity, step.waits, step.quota)

    async def forget(step: Forget, api: Api) -> None:
        forget_run(step.identity)

    def forget_run(identity: Identity) -> None:
        journal.forget(identity)
        if logs is not None:
            logs.forget(identity.uid)

    async def follow_logs(step: FollowLogs, api: Api) -> None:
        assert logs is not None
        # `Api` has no logs; the client that it is has.
        logs.follow(step.key, step.identity, step.containers, cast("Client", api))

    made: dict[type[Custom], Callable[..., Awaitable[None]]] = {
        LoadOpen: load_open,
        Load: load,
        Write: write,
        Compare: compare,
        Remember: remember,
        Forget: forget,
        FollowLogs: follow_logs,
    }
    return made
