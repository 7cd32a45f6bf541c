"""Reads how long earlier runs took, for estimates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, select

from fournos.history.estimates.durations import MAX_RUNS, MIN_RUNS, Past, WorkProfile, past_of
from fournos.history.records import Ending
from fournos.history.store import rows
from fournos.history.store.schema import runs
from fournos.history.store.store import HistoryStore
from fournos.history.store.text import indexed

NEWEST: Final = 2_000
"""The newest ended runs of all namespaces that are read at once."""
MOST_WORKS: Final = 100
"""Kinds of work without enough runs among the newest that are looked for on their own."""
_KIND: Final = "FournosJob"


async def past_runs(store: HistoryStore, works: Iterable[tuple[str, WorkProfile]]) -> dict[str, list[Past]]:
    """Returns the runs by the UID of their namespace, the newest first.

    `works` are the namespaces and the work of live jobs: runs of the same fingerprint are found also if they
    are not among the newest.
    """
    dialect = store.database.dialect
    async with store.reading() as connection:
        newest = (
            await connection.execute(_ended(dialect).order_by(runs.c.ended_at.desc()).limit(NEWEST))
        ).all()
        by_namespace = _by_namespace(newest)
        fingerprints = {uid: [run.work.fingerprint for run in past] for uid, past in by_namespace.items()}
        short = {
            (uid, work.fingerprint): None
            for uid, work in works
            if work.fingerprint and fingerprints.get(uid, []).count(work.fingerprint) < MIN_RUNS
        }
        for uid, fingerprint in list(short)[:MOST_WORKS]:
            where = (runs.c.fingerprint == indexed(fingerprint), runs.c.namespace_uid == indexed(uid))
            statement = _ended(dialect, *where).order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
            same = (await connection.execute(statement.limit(MAX_RUNS))).all()
            rest = [run for run in by_namespace.get(uid, []) if run.work.fingerprint != fingerprint]
            by_namespace[uid] = _by_namespace(same).get(uid, []) + rest
    return by_namespace


def _ended(dialect: str, *where: ColumnElement[bool]) -> Select[Any]:
    # The end of a run whose object was deleted unseen is the time of that finding.
    observed = runs.c.ending == Ending.OBSERVED.value
    return select(*rows.columns(dialect)).where(
        runs.c.kind == _KIND, runs.c.ended_at.is_not(None), observed, *where
    )


def _by_namespace(found: Iterable[Any]) -> dict[str, list[Past]]:
    result: dict[str, list[Past]] = {}
    for row in found:
        run = rows.run_of(row)
        if (past := past_of(run)) is not None:
            result.setdefault(run.namespace_uid, []).append(past)
    return result
