"""Reads the runs of the list of jobs that only the history has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.history import AsyncHistory
from fournos.history.records import Run
from fournos.web.runs.filters import Filters
from fournos.web.runs.rows import RowPlace, follows, is_enough, second

_MORE: Final = 8
"""Rows that are read in addition to a page: the history has the live jobs too, which are left out."""
_MOST: Final = 5_000
"""The maximum number of rows of the history that are read for one page."""


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """The runs of a page, and back to which time they are all there."""

    runs: Sequence[Run] = ()
    complete_from: str = ""
    """The time, in the form of metav1.Time, from which on no run is missing; "" if none is missing at all."""


async def recorded(
    history: AsyncHistory,
    filters: Filters,
    *,
    namespace: str,
    after: RowPlace | None,
    live: Collection[str],
    oldest: datetime | None,
    most: int,
) -> RecordedRuns:
    """Returns the runs of a page, `most` of them at most.

    `namespace` is "" for all namespaces, `after` the last row of the page before.  `live` are the UIDs of all
    live jobs, whose runs are left out.  `oldest` is the time before which the page needs no run.  Raises
    FournosError.
    """
    begins = [one for one in (filters.begin, oldest) if one is not None]
    ends = [one for one in (filters.end, after.after if after else None) if one is not None]
    pages = history.pages(
        first=most + _MORE,
        everywhere=not namespace,
        namespace=namespace or None,
        kind=FOURNOS_JOB.kind,
        phase=sorted(filters.phases),
        **filters.recorded,
        since=max(begins, default=None),
        until=min(ends, default=None),
    )
    runs: list[Run] = []
    rows: list[Run] = []
    async with aclosing(cast(Any, pages)) as read:
        async for page in read:
            runs += page.runs
            rows = follows(runs, after, live)
            if not page.cursor or is_enough(runs, rows, most):
                break
            if len(runs) >= _MOST:
                until = runs[-1].submitted_at + timedelta(microseconds=1)
                # The next page begins at `until`: it must be earlier than the beginning of this page.
                if after is None or second(until) < after.submitted:
                    return RecordedRuns(rows[:most], second(until))
    return RecordedRuns(rows[:most])
