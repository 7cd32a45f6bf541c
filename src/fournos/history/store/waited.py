"""Counts in the database how long the runs of a period waited, by cause: no run is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Select, case, func, literal, select, type_coerce, union_all

from fournos.history.store.schema import microseconds, runs, waits
from fournos.history.store.store import HistoryStore
from fournos.history.store.usage import in_scope
from fournos.history.waited import ALL, EDGES, Waited

_SECOND: Final = 1_000_000
"""Microseconds."""


async def waited(
    store: HistoryStore,
    since: datetime,
    until: datetime,
    *,
    parts: int = 1,
    namespaces: tuple[str, ...] | None,
    cluster: str = "",
    namespace: str = "",
    kinds: Sequence[str] = (),
) -> list[tuple[Waited, ...]]:
    """Returns how long the runs that were submitted from `since` to `until` waited, for each part of it.

    A wait that has not ended counts until `until`.  The other arguments are those of `used`.
    """
    counts: list[dict[str, list[int]]] = [{} for _ in range(parts)]
    if namespaces != ():
        statement = in_scope(
            _by_run(since, until, parts), store.database.dialect, namespaces, namespace, kinds, cluster
        )
        async with store.reading() as connection:
            for place, cause, waited_class, number in await connection.execute(_counted(statement)):
                by_cause = counts[min(place, parts - 1)]
                by_cause.setdefault(cause, [0] * (len(EDGES) + 1))[waited_class] += number
    return [tuple(Waited(cause, tuple(each)) for cause, each in one.items()) for one in counts]


def _by_run(since: datetime, until: datetime, parts: int) -> Select[Any]:
    """Selects how long each run waited for each cause, with its part of the period."""
    begin, end = microseconds(since), microseconds(until)
    length = max(1, (end - begin) // parts)
    submitted = type_coerce(runs.c.submitted_at, BigInteger)
    ended = func.coalesce(type_coerce(waits.c.end_at, BigInteger), literal(end, BigInteger))
    waited_for = func.sum(ended - type_coerce(waits.c.start_at, BigInteger))
    place = (submitted - literal(begin, BigInteger)) // literal(length, BigInteger)
    return (
        select(place.label("place"), waits.c.run_id, waits.c.cause, waited_for.label("waited"))
        .join(runs, runs.c.id == waits.c.run_id)
        .where(runs.c.submitted_at >= since, runs.c.submitted_at < until)
        .group_by("place", waits.c.run_id, waits.c.cause)
    )


def _counted(by_run: Select[Any]) -> Any:
    """Counts the runs in each class of waiting times: by cause, and of all causes together."""
    causes = by_run.cte("causes").prefix_with("MATERIALIZED")
    whole = (
        select(causes.c.place, func.sum(causes.c.waited).label("waited"))
        .group_by(causes.c.place, causes.c.run_id)
        .cte("whole")
    )
    return union_all(
        select(causes.c.place, causes.c.cause, _class(causes.c.waited), func.count()).group_by(
            causes.c.place, causes.c.cause, "class"
        ),
        select(whole.c.place, literal(ALL), _class(whole.c.waited), func.count()).group_by(
            whole.c.place, "class"
        ),
    )


def _class(waited_for: Any) -> Any:
    return case(
        *((waited_for <= edge * _SECOND, literal(place)) for place, edge in enumerate(EDGES)),
        else_=literal(len(EDGES)),
    ).label("class")
