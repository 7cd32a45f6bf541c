"""Reads the part of the list of jobs that only the history has."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.history import AsyncHistory
from fournos.history.records import Run
from fournos.web.runs.filters import Filters
from fournos.web.runs.rows import Place, follows, is_enough

_MORE: Final = 8
"""Rows that are read beyond a page, because live jobs are in the history, too."""
_MOST: Final = 5_000
"""Rows of the history that are read for one page at most."""


async def recorded(
    history: AsyncHistory,
    filters: Filters,
    *,
    namespace: str,
    after: Place | None,
    live: Collection[str],
    oldest: datetime | None,
    most: int,
) -> list[Run]:
    """Returns the runs of a page.  `live` are the UIDs of all live jobs, which are left out.

    `namespace` "" means all; `oldest` is the time before which the page needs no run.  Raises FournosError.
    """
    begins = [one for one in (filters.begin, oldest) if one is not None]
    ends = [one for one in (filters.end, after.after if after else None) if one is not None]
    asked = most + _MORE
    while True:
        runs = [
            run
            async for run in history.runs(
                everywhere=not namespace,
                namespace=namespace or None,
                kind=FOURNOS_JOB.kind,
                phase=sorted(filters.phases),
                owner=filters.owner or (),
                cluster=filters.cluster or (),
                labels=filters.labels,
                text=filters.text,
                since=max(begins, default=None),
                until=min(ends, default=None),
                limit=asked,
            )
        ]
        found = follows(runs, after, live)
        if is_enough(runs, found, most, asked) or asked >= _MOST:
            return found[:most]
        asked *= 2
