"""What the handlers of the API work with: the store, the blobs and the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from fournos.engine.runtime.clock import Clock
from fournos.history.api.routes import Scope
from fournos.history.artifacts.archive import Artifacts
from fournos.history.artifacts.rules import ArtifactLimits
from fournos.history.blobs import Blobs
from fournos.history.records import Identity, Run
from fournos.history.regressions.judge import JUDGED
from fournos.history.regressions.review import SeriesReview
from fournos.history.store import HistoryStore
from fournos.history.store.artifacts import ArtifactRows
from fournos.history.store.logs import LogRows
from fournos.history.store.results import Results
from fournos.history.store.retention import erase
from fournos.history.store.review import review
from fournos.history.store.verdicts import Verdicts


class HistoryService:
    """Handed to every handler."""

    def __init__(
        self,
        store: Callable[[], Awaitable[HistoryStore]],
        blobs: Blobs,
        *,
        clock: Clock,
        limits: ArtifactLimits,
        cluster: str = "",
    ) -> None:
        """`store()` returns the open store, or raises StoreUnavailableError.

        `limits`: of the artifacts of one run.

        `cluster`: the identity of the API server in the history; set before the first request.
        """
        self.store = store
        self.artifacts = Artifacts(self.artifact_rows, blobs, limits)
        self.reading = asyncio.Lock()
        """Held while a file of results is read."""
        self.cluster = cluster
        self.blobs = blobs
        self._clock = clock

    async def artifact_rows(self) -> ArtifactRows:
        return ArtifactRows(await self.store())

    async def log_rows(self) -> LogRows:
        return LogRows(await self.store())

    async def results(self) -> Results:
        return Results(await self.store())

    async def verdicts(self) -> Verdicts:
        return Verdicts(await self.store())

    async def review(self, run: Run, scope: Scope, *, kpi: str = "", newest: int = JUDGED) -> SeriesReview:
        """Judges the series of a run's fingerprint, as far as the caller may read them; `kpi`: "" for all."""
        return await review(
            await self.store(), run, scope.namespaces, cluster=scope.cluster, kpi=kpi, newest=newest
        )

    async def delete(self, identity: Identity) -> None:
        """Deletes a run with its documents, logs, artifacts and results."""
        await erase(await self.store(), self.blobs, [identity], self.now())

    def now(self) -> datetime:
        return self._clock.now()
