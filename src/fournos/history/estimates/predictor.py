"""The estimator of the running process, and the predictions that are compared with what happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches
from fournos.history.estimates.durations import WorkProfile
from fournos.history.estimates.estimator import Estimator, NotReadyError, read_objects
from fournos.history.estimates.live import Objects, PastByNamespace
from fournos.history.records import Identity
from fournos.history.store import HistoryStore, StoreUnavailableError
from fournos.history.store.durations import past_runs
from fournos.history.store.verdicts import Verdicts

log = logging.getLogger(__name__)

INTERVAL: Final = 120.0
"""Seconds between two looks at the queues."""
_KEPT: Final = 20_000
"""Jobs that are remembered as predicted; a job that is forgotten is predicted once more."""


def live_estimator(
    live: Sequence[Caches], opened: Callable[[], Awaitable[HistoryStore]], clock: Clock, *, gpu_prefix: str
) -> Estimator:
    """Returns the estimator; `live` is filled with the caches of the recorder once its manager exists."""

    async def objects() -> Objects:
        if not live:
            raise NotReadyError("the queues are not read yet")
        return await read_objects(live[0])

    async def past(works: Iterable[tuple[str, WorkProfile]]) -> PastByNamespace:
        return await past_runs(await opened(), works)

    return Estimator(objects, past, clock, gpu_prefix=gpu_prefix)


async def predict_forever(
    estimator: Estimator,
    opened: Callable[[], Awaitable[HistoryStore]],
    clock: Clock,
) -> None:
    """Predicts each waiting job once, with its first estimate.  `opened()` returns the store of the leader.

    Estimates that users ask for are not stored: how good estimates are must not depend on who asks.
    """
    verdicts = Verdicts(await opened())
    done: dict[Identity, None] = {}
    while True:
        try:
            await predict(estimator, verdicts, clock, done)
        except (NotReadyError, StoreUnavailableError) as error:
            log.debug("no predictions now: %s", error)
        await asyncio.sleep(INTERVAL)


async def predict(estimator: Estimator, verdicts: Verdicts, clock: Clock, done: dict[Identity, None]) -> None:
    """Stores a prediction of each waiting job that is not in `done`, and adds it there."""
    for identity, found in await estimator.predictions():
        if identity not in done and found.start and await verdicts.predict(identity, found, clock.now()):
            done[identity] = None
    while len(done) > _KEPT:
        del done[next(iter(done))]
