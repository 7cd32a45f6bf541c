"""Blobs that belong to nothing: found by listing the store of blobs and comparing it with the database.

None is left in the usual course: the database names each blob before it is written.  What remains are parts
of uploads that were killed, and blobs of runs that this database does not have, such as after a restore.  The
former are deleted by the retention, the latter only when a person asks for it: a database that was named
wrongly has no runs, and would take all blobs with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, select, update

from fournos.history.artifacts.archive import upload_of
from fournos.history.blobs import Blobs
from fournos.history.store.schema import artifacts, runs
from fournos.history.store.schema import blobs as blob_table
from fournos.history.store.store import HistoryStore

AGE: Final = timedelta(days=1)
"""A younger blob may be that of an upload which goes on."""


@dataclass(frozen=True, slots=True)
class OrphanBlobs:
    """What a pass has found."""

    deleted: int = 0
    unknown: int = 0
    """Blobs without a run that stay."""


async def sweep_orphans(
    store: HistoryStore, files: Blobs, now: datetime, *, unknown: bool = False
) -> OrphanBlobs:
    """Deletes what interrupted uploads left; with `unknown` also the blobs that have no run."""
    deleted = remaining = 0
    async for page in files.pages():
        keys = [blob.key for blob in page if blob.written_at < now - AGE]
        unfinished, without = await _lost(store, keys)
        remaining += 0 if unknown else len(without)
        gone = [*unfinished, *(without if unknown else ())]
        if gone:
            await _delete(store, files, gone)
            deleted += len(gone)
    return OrphanBlobs(deleted, remaining)


async def _lost(store: HistoryStore, keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the keys of unfinished uploads of runs, and those without a run."""
    uids = {key.partition("/")[0] for key in keys}
    if not uids:
        return [], []
    async with store.reading() as connection:
        present = set(await connection.scalars(select(runs.c.uid).where(runs.c.uid.in_(uids))))
        named = select(blob_table.c.key).where(blob_table.c.key.in_(keys), blob_table.c.run_id.is_not(None))
        claimed = set(await connection.scalars(named))
        columns = select(runs.c.uid, artifacts.c.sha256, artifacts.c.upload).join_from(artifacts, runs)
        rows = await connection.execute(columns.where(runs.c.uid.in_(uids)))
        stored = {(uid, sha256, upload or "") for uid, sha256, upload in rows}
    unfinished = [
        key
        for key in keys
        if key.partition("/")[0] in present and (upload := upload_of(key)) and upload not in stored
    ]
    without = [key for key in keys if key.partition("/")[0] not in present and key not in claimed]
    return unfinished, without


async def _delete(store: HistoryStore, files: Blobs, keys: Sequence[str]) -> None:
    """Deletes blobs; the row goes last, so that a process that ends in between leaves it to the retention."""
    async with store.writing() as connection:
        await connection.execute(update(blob_table).where(blob_table.c.key.in_(keys)).values(run_id=None))
    await files.delete(keys)
    async with store.writing() as connection:
        ownerless = blob_table.c.run_id.is_(None)
        await connection.execute(delete(blob_table).where(blob_table.c.key.in_(keys), ownerless))
