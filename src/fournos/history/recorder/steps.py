"""The steps of the recorder that read and write the store, and its memory of what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.decision import Custom
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Document, Ending, Identity, Record, Run

if TYPE_CHECKING:
    from fournos.engine.kube.client import Client
    from fournos.history.logs.collector import LogCollector
    from fournos.history.recorder.database import DatabaseArchive


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is recorded."""

    run: Run
    digest: bytes = b""
    """Digest of what was written; empty for a run that an earlier process wrote."""
    versions: tuple[str, ...] = ()
    """The resourceVersions of what was written (`ObservedObject.versions`)."""
    quota: Mapping[str, Any] = field(default_factory=dict)
    """The quota that its Workload was last seen to hold.  The Workload goes before the end is written."""

    @property
    def open(self) -> bool:
        return self.run.ending is Ending.OPEN


class Journal:
    """The recorded runs of one kind whose objects exist, or whose end is not recorded.

    It keeps an unchanged object from being written again.
    """

    def __init__(self) -> None:
        self.opened = False
        """True once the open runs of earlier processes were read; nothing is recorded before."""
        self._runs: dict[str, StoredRun] = {}
        self._missing: set[str] = set()
        self._suspected: dict[str, bool] = {}
        self._by_key: dict[Key, dict[str, None]] = {}

    def open(self, runs: Iterable[Run]) -> None:
        """Takes over the open runs of earlier processes."""
        for run in runs:
            if run.identity.uid not in self._runs:
                self.put(StoredRun(run))
        self.opened = True

    def get(self, uid: str) -> StoredRun | None:
        return self._runs.get(uid)

    def missing(self, identity: Identity) -> None:
        """Notes that the store has no run of this identity."""
        self._missing.add(identity.uid)

    def looked_up(self, uid: str) -> bool:
        """False: an earlier process may have recorded the object, and the store was not asked."""
        return uid in self._runs or uid in self._missing

    def compared(self, identity: Identity, suspected: bool) -> None:
        """Notes whether the results of a run are suspected to be a regression."""
        self._suspected[identity.uid] = suspected

    def suspected(self, uid: str) -> bool | None:
        """True if a regression is suspected; None if the results have not been compared."""
        return self._suspected.get(uid)

    def at(self, key: Key) -> tuple[StoredRun, ...]:
        """Returns the runs of this name; of a name that was used again there can be several."""
        return tuple(self._runs[uid] for uid in self._by_key.get(key, ()))

    def put(self, stored: StoredRun) -> None:
        self._missing.discard(stored.run.identity.uid)
        self._runs[stored.run.identity.uid] = stored
        self._by_key.setdefault(stored.run.key, {})[stored.run.identity.uid] = None

    def remember(self, identity: Identity, quota: Mapping[str, Any]) -> None:
        """Keeps a quota that is written with the next record."""
        stored = self._runs.get(identity.uid)
        if stored is not None:
            self._runs[identity.uid] = replace(stored, quota=quota)

    def forget(self, identity: Identity) -> None:
        """Drops a run that is over and whose object is gone."""
        self._suspected.pop(identity.uid, None)
        stored = self._runs.pop(identity.uid, None)
        if stored is not None:
            uids = self._by_key[stored.run.key]
            del uids[identity.uid]
            if not uids:
                del self._by_key[stored.run.key]

    def every_key(self) -> tuple[Key, ...]:
        return tuple(self._by_key)

    def open_count(self) -> int:
        return sum(stored.open for stored in self._runs.values())

    def clear(self) -> None:
        """Forgets everything, as a new process has."""
        self.opened = False
        self._runs.clear()
        self._missing.clear()
        self._suspected.clear()
        self._by_key.clear()


# --- steps ----------------------------------------------------------------------------------------------


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
    """Keeps a changed quota in memory until the next write of its run."""

    foreseen = True
    identity: Identity
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
    wrote: Callable[[Record, bool], None]
    logs: LogCollector | None
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load_open(self, step: LoadOpen, api: Api) -> None:
        async with self.loading:
            if not self.journal.opened:
                self.journal.open([run async for run in self.archive.open_runs(step.cluster, step.kind)])

    async def load(self, step: Load, api: Api) -> None:
        run = await self.archive.get(step.identity)
        if run is None:
            self.journal.missing(step.identity)
        else:
            self.journal.put(StoredRun(run))

    async def write(self, step: Write, api: Api) -> None:
        taken = await self.archive.record(step.record)
        self.wrote(step.record, taken)
        if step.gone:
            self._forget_run(step.record.run.identity)
        else:
            quota = step.record.documents.get(Document.QUOTA) or {}
            self.journal.put(StoredRun(step.record.run, step.digest, step.versions, quota))

    async def compare(self, step: Compare, api: Api) -> None:
        self.journal.compared(step.identity, await self.archive.suspected(step.identity))

    async def remember(self, step: Remember, api: Api) -> None:
        self.journal.remember(step.identity, step.quota)

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
    wrote: Callable[[Record, bool], None],
    logs: LogCollector | None = None,
) -> Mapping[type[Custom], Executor]:
    """Returns the executors; `wrote` is called with each record and whether the store took it."""
    steps = _Steps(archive, journal, wrote, logs)
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
