"""Stores what people decided on results: baselines and acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, select

from fournos.history.records import Identity
from fournos.history.regressions.review import Acknowledgement, Baseline, baseline_values
from fournos.history.store.database import INSERT
from fournos.history.store.results import Results
from fournos.history.store.rows import columns, run_of
from fournos.history.store.schema import acknowledgements, baselines, keeps, runs
from fournos.history.store.schema import series as series_table
from fournos.history.store.store import HistoryStore, number_of
from fournos.history.store.text import indexed, message


class Verdicts:
    """Baselines and acknowledgements in a store.

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


def _of_cluster(cluster: str) -> ColumnElement[bool]:
    """The condition of acknowledgements whose change began with a run of the cluster, which may be gone."""
    return acknowledgements.c.run.startswith(f"{indexed(cluster)}/", autoescape=True)
