"""What the handlers of the API work with: the store, the blobs and the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from fournos.engine.runtime.clock import Clock
from fournos.history.api.authorization import Scope
from fournos.history.api.results import Checks
from fournos.history.artifacts.archive import Artifacts, StoredArtifact
from fournos.history.artifacts.rules import Artifact, Limits
from fournos.history.blobs import Blobs
from fournos.history.compare.comparison import RowKey
from fournos.history.estimates.accuracy import Prediction
from fournos.history.estimates.estimator import Estimator
from fournos.history.logs.models import Chunk, Log
from fournos.history.records import Detail, Document, Identity, Page, Query
from fournos.history.regressions.series import Series
from fournos.history.results.models import Kpi, ResultRecord
from fournos.history.store import Store
from fournos.history.store.artifacts import ArtifactRows
from fournos.history.store.logs import LogRows
from fournos.history.store.namespaces import namespaces
from fournos.history.store.result_rows import Stored
from fournos.history.store.results import Results
from fournos.history.store.retention import erase
from fournos.history.store.usage import used
from fournos.history.store.verdicts import Verdicts
from fournos.history.usage import Usage


class Backend:
    """The store as the API uses it.  Raises the errors of the store."""

    def __init__(self, reading: Callable[[], Awaitable[Store]], blobs: Blobs, clock: Clock) -> None:
        """`reading()` returns the open store, or raises StoreUnavailableError."""
        self._reading = reading
        self._blobs = blobs
        self._clock = clock

    async def find(self, query: Query) -> Page:
        return await (await self._reading()).find(query)

    async def detail(self, query: Query, documents: Sequence[Document] = ()) -> Detail | None:
        return await (await self._reading()).detail(query, documents)

    async def document(self, identity: Identity, document: Document) -> Any | None:
        return await (await self._reading()).document(identity, document)

    async def namespaces(self) -> list[tuple[str, str]]:
        return await namespaces(await self._reading())

    async def keep(self, identity: Identity, on: bool, *, by: str, reason: str, now: datetime) -> bool:
        return await (await self._reading()).keep(identity, on, by=by, reason=reason, now=now)

    async def delete(self, identity: Identity) -> None:
        await erase(await self._reading(), self._blobs, [identity], self._clock.now())

    # --- `fournos.history.artifacts.archive.Rows` ---

    async def artifacts(self, identity: Identity) -> list[Artifact]:
        return await ArtifactRows(await self._reading()).artifacts(identity)

    async def stored_artifacts(self, identity: Identity) -> list[StoredArtifact]:
        return await ArtifactRows(await self._reading()).stored_artifacts(identity)

    async def blob_bytes(self, identity: Identity) -> int:
        return await ArtifactRows(await self._reading()).blob_bytes(identity)

    async def put_artifact(self, identity: Identity, stored: StoredArtifact) -> StoredArtifact | None:
        return await ArtifactRows(await self._reading()).put_artifact(identity, stored)

    async def release_artifact(self, identity: Identity, stored: StoredArtifact) -> list[str]:
        return await ArtifactRows(await self._reading()).release_artifact(identity, stored)

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        return await (await self._reading()).claim_blob(identity, key, size)

    async def unclaim_blobs(self, keys: list[str]) -> None:
        await ArtifactRows(await self._reading()).unclaim_blobs(keys)

    # --- `fournos.history.logs.pages.Rows` ---

    async def logs(self, identity: Identity) -> list[Log]:
        return await LogRows(await self._reading()).logs(identity)

    async def log_chunks(self, identity: Identity, log: Log, first: int, last: int) -> list[Chunk]:
        return await LogRows(await self._reading()).chunks(identity, log, first, last)

    # --- results ---

    async def results(self, identity: Identity) -> tuple[ResultRecord, ...]:
        return await Results(await self._reading()).of(identity)

    async def put_results(
        self, identity: Identity, records: Sequence[ResultRecord], now: datetime
    ) -> Stored | None:
        return await Results(await self._reading()).put(identity, records, now)

    async def earlier_results(
        self, fingerprint: str, scope: Scope, without: Sequence[Identity]
    ) -> Mapping[RowKey, Sequence[Kpi]]:
        results = Results(await self._reading())
        return await results.earlier(fingerprint, scope.namespaces, cluster=scope.cluster, without=without)

    async def series(self, fingerprint: str, scope: Scope, *, kpi_id: str, newest: int) -> list[Series]:
        results = Results(await self._reading())
        return await results.series(
            fingerprint, scope.namespaces, cluster=scope.cluster, kpi_id=kpi_id, newest=newest
        )

    async def run_names(self, runs: Iterable[str]) -> dict[str, str]:
        return await Results(await self._reading()).names(runs)

    async def verdicts(self) -> Verdicts:
        """Baselines and acknowledgements."""
        return Verdicts(await self._reading())

    async def used(
        self,
        since: datetime,
        until: datetime,
        scope: Scope,
        *,
        namespace: str,
        kinds: Sequence[str],
    ) -> Usage:
        return await used(
            await self._reading(),
            since,
            until,
            namespaces=scope.namespaces,
            cluster=scope.cluster,
            namespace=namespace,
            kinds=kinds,
        )

    # --- estimates ---

    async def predictions(self, scope: Scope) -> list[Prediction]:
        verdicts = Verdicts(await self._reading())
        return await verdicts.predictions(scope.namespaces, cluster=scope.cluster)


class HistoryService:
    """Handed to every handler."""

    def __init__(
        self,
        reading: Callable[[], Awaitable[Store]],
        blobs: Blobs,
        *,
        clock: Clock,
        limits: Limits,
        cluster: str = "",
        estimator: Estimator | None = None,
        flush_logs: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`limits`: of the artifacts of one run.  `estimator`: None where no caches are.

        `flush_logs(uid)`: stores the lines of a run that this process has read so far.

        `cluster`: the identity of the API server in the history; set before the first request.
        """
        self.store = Backend(reading, blobs, clock)
        self.artifacts = Artifacts(self.store, blobs, limits)
        self.checks = Checks()
        """To be closed with the server."""
        self.cluster = cluster
        self.estimator = estimator
        self.blobs = blobs
        self._clock = clock
        self._flush_logs = flush_logs

    async def flush_logs(self, identity: Identity) -> None:
        """Has the lines stored that this process has of a run."""
        if self._flush_logs is not None and identity.cluster == self.cluster:
            await self._flush_logs(identity.uid)

    async def check_room(self, size: int) -> None:
        """Raises BlobsFullError if the volume is almost full: SQLite's file is on the same one."""
        if (room := await self.blobs.room()) is not None:
            room.check(size)

    def now(self) -> datetime:
        return self._clock.now()
