"""Stores what people decided on results, and what was predicted: baselines, acknowledgements, predictions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, insert, select

from fournos.history.estimates.accuracy import Prediction
from fournos.history.estimates.simulate import Estimate
from fournos.history.records import Identity
from fournos.history.regressions.review import Acknowledgement, Baseline, baseline_values
from fournos.history.store.database import INSERT
from fournos.history.store.results import Results
from fournos.history.store.rows import columns, run_of
from fournos.history.store.schema import acknowledgements, baselines, keeps, predictions, runs
from fournos.history.store.schema import series as series_table
from fournos.history.store.store import HistoryStore, number_of
from fournos.history.store.text import indexed, message

MAX_PREDICTIONS: Final = 1_000
"""The newest predictions that an accuracy is computed from."""


class Verdicts:
    """Baselines, acknowledgements and predictions in a store.

    `namespaces` are the UIDs of the namespaces that the caller may read, None for all; `cluster` is the one
    whose runs count, "" for all.
    """

    def __init__(self, store: HistoryStore) -> None:
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
            row = {"run_id": run.id, "at": now, "by": indexed(by), "reason": message(reason)}
            await connection.execute(insert(baselines).values({**place, **row}))
            # A baseline that is replaced stays kept: a person decides when it may go.  An earlier mark stays.
            mark = INSERT[self._store.database.dialect](keeps).values(
                {**row, "reason": message(f"baseline: {reason}")}
            )
            await connection.execute(mark.on_conflict_do_nothing(index_elements=["run_id"]))
        return True

    async def unpin(self, identity: Identity) -> bool:
        """Ends that a run is the baseline; its keep mark stays.  False: it is none."""
        where = baselines.c.run_id == number_of(identity)
        async with self._store.writing() as connection:
            return bool((await connection.execute(delete(baselines).where(where))).rowcount)

    async def baseline(self, namespace_uid: str, fingerprint: str) -> Baseline | None:
        pinned = await self.baselines(
            baselines.c.namespace_uid == indexed(namespace_uid),
            baselines.c.fingerprint == indexed(fingerprint),
        )
        return pinned[0] if pinned else None

    async def pinned(
        self, namespaces: tuple[str, ...] | None, namespace: str = "", *, cluster: str = ""
    ) -> list[Baseline]:
        """Returns the baselines of a namespace, or of all that the caller may read; the newest first."""
        where: list[ColumnElement[bool]] = []
        where += [] if namespaces is None else [baselines.c.namespace_uid.in_(namespaces)]
        where += [runs.c.cluster == indexed(cluster)] if cluster else []
        return await self.baselines(*where, *([runs.c.namespace == indexed(namespace)] if namespace else []))

    async def pinned_values(
        self, namespace_uid: str, fingerprint: str
    ) -> tuple[Baseline | None, dict[str, float]]:
        """Returns the baseline of a fingerprint, and its values by series, those of its last attempt."""
        pinned = await self.baseline(namespace_uid, fingerprint)
        records = await Results(self._store).of(pinned.run.identity, last_attempt=True) if pinned else ()
        return pinned, baseline_values(fingerprint, records)

    async def baselines(self, *where: ColumnElement[bool]) -> list[Baseline]:
        statement = (
            select(*columns(self._store.database.dialect), baselines.c.at, baselines.c.by, baselines.c.reason)
            .select_from(runs.join(baselines, runs.c.id == baselines.c.run_id))
            .where(*where)
            .order_by(baselines.c.at.desc(), runs.c.id.desc())
        )
        async with self._store.reading() as connection:
            found = (await connection.execute(statement)).all()
        return [Baseline(run_of(row[:-3]), *row[-3:]) for row in found]

    async def acknowledge(self, namespace_uid: str, *made: Acknowledgement) -> None:
        """Stores acknowledgements; one of the same place in the same series is replaced."""
        table = acknowledgements
        rows: list[dict[str, Any]] = [
            {
                "namespace_uid": indexed(namespace_uid),
                "series": indexed(acknowledgement.series),
                "run": indexed(acknowledgement.run),
                "at": acknowledgement.at,
                "rises": acknowledgement.rises,
                "reason": message(acknowledgement.reason),
                "by": indexed(acknowledgement.by),
                "made_at": acknowledgement.made_at,
            }
            for acknowledgement in made
        ]
        place = ("namespace_uid", "series", "run", "rises")
        async with self._store.writing() as connection:
            for row in rows:
                await connection.execute(delete(table).where(*(table.c[name] == row[name] for name in place)))
            if rows:
                await connection.execute(insert(table), rows)

    async def withdraw(
        self,
        namespaces: tuple[str, ...] | None,
        namespace: str,
        uid: str,
        kpi_id: str = "",
        *,
        cluster: str = "",
    ) -> int:
        """Deletes the acknowledgements of changes that began with a run, and returns their number.

        The run is named by its namespace and UID, because its row may be gone.
        """
        table = acknowledgements
        where = [table.c.run.endswith(f"/{indexed(namespace)}/{indexed(uid)}", autoescape=True)]
        where += [] if namespaces is None else [table.c.namespace_uid.in_(namespaces)]
        where += [_of_cluster(cluster)] if cluster else []
        if kpi_id:
            ids = select(series_table.c.id).where(series_table.c.kpi_id == indexed(kpi_id))
            where.append(table.c.series.in_(ids))
        async with self._store.writing() as connection:
            return int((await connection.execute(delete(table).where(*where))).rowcount)

    async def acknowledged(
        self, series: Iterable[str], namespaces: tuple[str, ...] | None, *, cluster: str = ""
    ) -> list[Acknowledgement]:
        """Returns the acknowledgements of these series, the oldest first."""
        names = list(map(indexed, series))
        table = acknowledgements
        statement = select(table).where(table.c.series.in_(names)).order_by(table.c.made_at, table.c.id)
        if namespaces is not None:
            statement = statement.where(table.c.namespace_uid.in_(namespaces))
        if cluster:
            statement = statement.where(_of_cluster(cluster))
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return [
            Acknowledgement(row.series, row.run, row.at, row.rises, row.reason, row.by, row.made_at)
            for row in rows
        ]

    async def predict(self, identity: Identity, estimate: Estimate, now: datetime) -> bool:
        """Stores what an estimate predicts of a run.  False: nothing, or there is no such run."""
        ranges = (("start", estimate.start), ("end", estimate.end))
        rows = [
            {
                "event": event,
                "made_at": now,
                "median_at": times.median,
                "p90_at": times.p90,
                "basis": message(estimate.basis),
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

    async def predictions(self, namespaces: tuple[str, ...] | None, *, cluster: str = "") -> list[Prediction]:
        """Returns the newest predictions, and what happened."""
        started = func.coalesce(runs.c.started_at, runs.c.admitted_at)
        statement = (
            select(predictions, started.label("started"), runs.c.ended_at)
            .join(runs, runs.c.id == predictions.c.run_id)
            .order_by(predictions.c.made_at.desc())
            .limit(MAX_PREDICTIONS)
        )
        if namespaces is not None:
            statement = statement.where(runs.c.namespace_uid.in_(namespaces))
        if cluster:
            statement = statement.where(runs.c.cluster == indexed(cluster))
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


def _of_cluster(cluster: str) -> ColumnElement[bool]:
    """The condition of acknowledgements whose change began with a run of the cluster, which may be gone."""
    return acknowledgements.c.run.startswith(f"{indexed(cluster)}/", autoescape=True)
