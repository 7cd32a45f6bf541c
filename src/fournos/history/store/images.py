"""Compares the images of reruns with those of the runs that they repeat, as the history stores them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.history.records import Document, uid_in
from fournos.history.regressions.reruns import other_images
from fournos.history.store.reads import documents_statement
from fournos.history.store.rows import identity_text
from fournos.history.store.text import unpack


async def changed_images(
    connection: AsyncConnection, reruns: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Returns the images of each rerun that differ from those of its run.

    `reruns` maps reruns to the runs that they repeat, all as `Identity.text`.
    """
    if not reruns:
        return {}
    found = await _provenance(connection, {*reruns, *reruns.values()})
    return await asyncio.to_thread(_compare, reruns, found)


async def _provenance(connection: AsyncConnection, wanted: Iterable[str]) -> dict[str, bytes]:
    statement = documents_statement(map(uid_in, wanted), Document.PROVENANCE)
    rows = (await connection.execute(statement)).all()
    return {identity_text(row): row.data for row in rows}


def _compare(reruns: Mapping[str, str], stored: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, Any]] = {text: unpack(data) for text, data in stored.items()}
    return {
        rerun: other_images(found.get(run) or {}, found.get(rerun) or {}) for rerun, run in reruns.items()
    }
