"""The reads of one run, and of what belongs to it, each within one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, select

from fournos.history.records import Document, Identity, KeepMark, Run
from fournos.history.store import rows
from fournos.history.store.schema import documents, keeps, runs
from fournos.history.store.text import indexed, unpack

IDENTITY: Final = tuple(runs.c[name] == bindparam(name) for name in ("cluster", "namespace", "uid"))
"""The condition of one run; its parameters are those of `rows.identity_columns`."""
_NUMBER: Final = select(runs.c.id).where(*IDENTITY)
_MARK: Final = select(keeps.c.by, keeps.c.at, keeps.c.reason).where(keeps.c.run_id == bindparam("number"))
_DOCUMENTS: Final = select(documents.c.name, documents.c.data).where(
    documents.c.run_id == bindparam("number"), documents.c.name.in_(bindparam("names", expanding=True))
)


def get(connection: Connection, identity: Identity) -> Run | None:
    statement = select(*rows.columns(connection.dialect.name)).where(*IDENTITY)
    row = connection.execute(statement, rows.identity_columns(identity)).first()
    return None if row is None else rows.run_of(row)


def namespaces(connection: Connection) -> list[tuple[str, str]]:
    """Returns the name and the UID of each namespace that has runs, without reading the runs.

    Each step asks the index for the next UID, so the number of namespaces counts and not that of the runs.
    """
    first = select(func.min(runs.c.namespace_uid).label("uid")).cte("uids", recursive=True)
    following = select(
        select(func.min(runs.c.namespace_uid)).where(runs.c.namespace_uid > first.c.uid).scalar_subquery()
    ).where(first.c.uid.is_not(None))
    uids = first.union_all(following)
    name = select(runs.c.namespace).where(runs.c.namespace_uid == uids.c.uid).limit(1).scalar_subquery()
    pairs = connection.execute(select(name, uids.c.uid).where(uids.c.uid.is_not(None)))
    return [(row[0], row[1]) for row in pairs]


def number_of(connection: Connection, identity: Identity) -> int | None:
    """Returns `runs.id`, by which tables refer to a run; None if there is none of this identity."""
    found: int | None = connection.scalar(_NUMBER, rows.identity_columns(identity))
    return found


def mark_of(connection: Connection, number: int) -> KeepMark | None:
    found = connection.execute(_MARK, {"number": number}).first()
    return None if found is None else KeepMark(*found)


def documents_of(
    connection: Connection, number: int | None, wanted: Iterable[Document]
) -> dict[Document, Any]:
    names = [one.value for one in wanted]
    if not names:
        return {}
    found = connection.execute(_DOCUMENTS, {"number": number, "names": names})
    return {Document(name): unpack(data) for name, data in found}


def documents_statement(uids: Iterable[str], name: Document) -> Select[Any]:
    """Selects a document of runs, with the columns that identify the run."""
    return (
        select(runs.c.cluster, runs.c.namespace, runs.c.uid, documents.c.data)
        .join(documents, documents.c.run_id == runs.c.id)
        .where(runs.c.uid.in_({indexed(uid) for uid in uids}), documents.c.name == name.value)
    )


def open_runs(
    connection: Connection, cluster: str, kind: str, *, after: int, limit: int
) -> list[tuple[int, Run]]:
    """Returns the open runs of a kind whose `runs.id` is above `after`, by that number."""
    conditions = (
        runs.c.cluster == indexed(cluster),
        runs.c.kind == kind,
        runs.c.closed_at.is_(None),
        runs.c.id > after,
    )
    columns = rows.columns(connection.dialect.name)
    statement = select(*columns).where(*conditions).order_by(runs.c.id).limit(limit)
    return [(row.id, rows.run_of(row)) for row in connection.execute(statement)]
