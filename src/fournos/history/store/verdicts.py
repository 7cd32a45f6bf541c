"""Stores what people decided on results, and what was predicted: baselines, acknowledgements, predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, func, insert, select

from fournos.history.estimates.accuracy import Prediction
from fournos.history.estimates.simulate import Estimate
from fournos.history.records import Identity
from fournos.history.regressions.acknowledge import Acknowledgement
from fournos.history.store.results_schema import acknowledgements, baselines, predictions
from fournos.history.store.schema import runs
from fournos.history.store.store import Store, number_of
from fournos.history.store.text import indexed, message

MAX_PREDICTIONS: Final = 1_000
"""The newest predictions that an accuracy is computed from."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run that later runs of its fingerprint are compared with."""

    run: Identity
    fingerprint: str
    at: datetime
    by: str
    reason: str


class Verdicts:
    """Baselines, acknowledgements and predictions in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def pin(self, identity: Identity, *, by: str, reason: str, now: datetime) -> bool:
        """Makes a run the baseline of its fingerprint in its namespace, and keeps it from expiring.

        False: there is no such run, or it has no fingerprint.
        """
        async with self._store.writing() as connection:
            statement = select(runs.c.id, runs.c.namespace_uid, runs.c.fingerprint)
            run = (await connection.execute(statement.where(runs.c.id == number_of(identity)))).first()
            if run is None or not run.fingerprint:
                return False
            place = {"namespace_uid": run.namespace_uid, "fingerprint": run.fingerprint}
            await connection.execute(
                delete(baselines).where(*(baselines.c[k] == v for k, v in place.items()))
            )
            row = {**place, "run_id": run.id, "at": now, "by": indexed(by), "reason": message(reason)}
            await connection.execute(insert(baselines).values(row))
        # A baseline that is replaced stays kept: a person decides when it may go.
        return await self._store.keep(identity, True, by=by, reason=f"baseline: {reason}", now=now)

    async def unpin(self, namespace_uid: str, fingerprint: str) -> bool:
        """Takes the baseline away.  False: there is none."""
        where = (
            baselines.c.namespace_uid == indexed(namespace_uid),
            baselines.c.fingerprint == indexed(fingerprint),
        )
        async with self._store.writing() as connection:
            return bool((await connection.execute(delete(baselines).where(*where))).rowcount)

    async def baseline(self, namespace_uid: str, fingerprint: str) -> Baseline | None:
        statement = (
            select(runs.c.cluster, runs.c.namespace, runs.c.uid, baselines)
            .join(runs, runs.c.id == baselines.c.run_id)
            .where(
                baselines.c.namespace_uid == indexed(namespace_uid),
                baselines.c.fingerprint == indexed(fingerprint),
            )
        )
        async with self._store.reading() as connection:
            row = (await connection.execute(statement)).first()
        if row is None:
            return None
        identity = Identity(row.cluster, row.namespace, row.uid)
        return Baseline(identity, row.fingerprint, row.at, row.by, row.reason)

    async def acknowledge(self, namespace_uid: str, found: Acknowledgement) -> None:
        row: dict[str, Any] = {
            "namespace_uid": indexed(namespace_uid),
            "series": indexed(found.series),
            "run": indexed(found.run),
            "at": found.at,
            "rises": found.rises,
            "reason": message(found.reason),
            "by": indexed(found.by),
            "made_at": found.made_at,
        }
        async with self._store.writing() as connection:
            await connection.execute(insert(acknowledgements).values(row))

    async def acknowledged(
        self, series: Iterable[str], namespaces: tuple[str, ...] | None
    ) -> list[Acknowledgement]:
        """Returns the acknowledgements of these series, the oldest first."""
        names = list(map(indexed, series))
        table = acknowledgements
        statement = select(table).where(table.c.series.in_(names)).order_by(table.c.made_at, table.c.id)
        if namespaces is not None:
            statement = statement.where(table.c.namespace_uid.in_(namespaces))
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return [
            Acknowledgement(row.series, row.run, row.at, row.rises, row.reason, row.by, row.made_at)
            for row in rows
        ]

    async def predict(self, identity: Identity, found: Estimate, now: datetime) -> bool:
        """Stores what an estimate predicts of a run.  False: nothing, or there is no such run."""
        ranges = (("start", found.start), ("end", found.end))
        rows = [
            {
                "event": event,
                "made_at": now,
                "median_at": times.median,
                "p90_at": times.p90,
                "basis": message(found.basis),
            }
            for event, times in ranges
            if times
        ]
        async with self._store.writing() as connection:
            number = await connection.scalar(select(number_of(identity)))
            if number is None or not rows:
                return False
            where = (predictions.c.run_id == number, predictions.c.made_at == now)
            await connection.execute(delete(predictions).where(*where))
            await connection.execute(insert(predictions), [{"run_id": number, **row} for row in rows])
        return True

    async def predictions(
        self, namespaces: tuple[str, ...] | None, *, newest: int = MAX_PREDICTIONS
    ) -> list[Prediction]:
        """Returns the newest predictions, and what happened."""
        started = func.coalesce(runs.c.started_at, runs.c.admitted_at)
        statement = (
            select(predictions, started.label("started"), runs.c.ended_at)
            .join(runs, runs.c.id == predictions.c.run_id)
            .order_by(predictions.c.made_at.desc())
            .limit(newest)
        )
        if namespaces is not None:
            statement = statement.where(runs.c.namespace_uid.in_(namespaces))
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return [
            Prediction(
                row.event,
                row.made_at,
                row.median_at,
                row.p90_at,
                row.started if row.event == "start" else row.ended_at,
            )
            for row in rows
        ]
