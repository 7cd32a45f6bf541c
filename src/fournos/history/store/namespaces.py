"""The namespaces that have runs, found without reading the runs."""

from __future__ import annotations

from sqlalchemy import func, select

from fournos.history.store.schema import runs
from fournos.history.store.store import Store


async def namespaces(store: Store) -> list[tuple[str, str]]:
    """Returns the name and the UID of each namespace that has runs.

    Each step asks the index for the next UID, so the number of namespaces counts and not that of the runs.
    """
    first = select(func.min(runs.c.namespace_uid).label("uid")).cte("uids", recursive=True)
    following = select(
        select(func.min(runs.c.namespace_uid)).where(runs.c.namespace_uid > first.c.uid).scalar_subquery()
    ).where(first.c.uid.is_not(None))
    uids = first.union_all(following)
    name = select(runs.c.namespace).where(runs.c.namespace_uid == uids.c.uid).limit(1).scalar_subquery()
    async with store.reading() as connection:
        found = await connection.execute(select(name, uids.c.uid).where(uids.c.uid.is_not(None)))
        return [(row[0], row[1]) for row in found]
