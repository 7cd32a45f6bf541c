"""The jobs: those that exist and those that only the history has, in one list, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

from multidict import MultiMapping

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL
from fournos.client.history import AsyncHistory
from fournos.engine.api.values import format_time, parse_time
from fournos.history.records import Run, recorded_row
from fournos.insight.facts import everywhere
from fournos.insight.jobs import JobRow
from fournos.insight.values import Obj, created, uid_of
from fournos.web.errors import PageError
from fournos.web.pages.compare import MOST as COMPARED
from fournos.web.rights import recorded_namespaces
from fournos.web.runs.filters import PHASES, Filters, read, shortcuts
from fournos.web.runs.subject import part
from fournos.web.site import Call, Page


class RowPlace(NamedTuple):
    """The place of a job in the list, which is sorted by it, the largest first."""

    submitted: str
    """In the format of metav1.Time, so that texts compare as times."""
    uid: str

    def __str__(self) -> str:
        return f"{self.submitted}~{self.uid}"

    @property
    def after(self) -> datetime:
        """The end of its second: everything that follows in the list was submitted before."""
        return parse_time(self.submitted) + timedelta(seconds=1)


def place_of(text: str) -> RowPlace | None:
    """Reads the place after which a page begins; None for the first page.  Raises PageError."""
    if not text:
        return None
    submitted, _, uid = text.partition("~")
    try:
        return RowPlace(format_time(parse_time(submitted)), uid)
    except ValueError:
        raise PageError(422, "Not a page", "The address names no page of the list.", "See /jobs.") from None


class ListRow(JobRow):
    """A job in the list of the page."""

    __slots__ = ()

    @property
    def place(self) -> RowPlace:
        return RowPlace(self.submitted, self.uid)

    @property
    def mark(self) -> str:
        """How a comparison names it."""
        return f"{self.namespace}/{self.uid}"

    @property
    def path(self) -> str:
        """The address of its page."""
        path = f"/jobs/{quote(self.namespace, safe='')}/{quote(self.name, safe='')}"
        return path if self.live else f"{path}?uid={quote(self.uid, safe='')}"


def place(job: Obj) -> RowPlace:
    return RowPlace(created(job), uid_of(job))


def recorded_place(run: Run) -> RowPlace:
    return RowPlace(format_time(run.submitted_at.astimezone(UTC)), run.identity.uid)


def newest(jobs: Iterable[Obj], filters: Filters, after: RowPlace | None, most: int) -> list[Obj]:
    """The first `most` live jobs that match, of a page that begins after this place."""
    following = (job for job in jobs if after is None or place(job) < after)
    return nlargest(most, filter(filters.match, following), key=place)


def follows(runs: Iterable[Run], after: RowPlace | None, live: Collection[str]) -> list[Run]:
    """The runs of a page that begins after this place, without those that are live, in the list's order."""
    following = [
        run for run in runs if run.identity.uid not in live and (after is None or recorded_place(run) < after)
    ]
    return sorted(following, key=recorded_place, reverse=True)


def is_enough(runs: Sequence[Run], following: Sequence[Run], most: int) -> bool:
    """True if no further run of the history belongs to a page of `most` rows.

    `runs` are the first of the history, and `following` those that the page may show.  The history orders the
    runs of one second otherwise, so that second must be complete.
    """
    return (
        len(following) >= most
        and recorded_place(following[most - 1]).submitted > recorded_place(runs[-1]).submitted
    )


def second(at: datetime) -> str:
    """The first second that begins at or after this time, as places have it."""
    begun = at.astimezone(UTC).replace(microsecond=0)
    return format_time(begun if begun == at else begun + timedelta(seconds=1))


def merged(
    jobs: Iterable[Obj], runs: Iterable[Run], most: int, complete_from: str = ""
) -> tuple[list[ListRow], RowPlace | None]:
    """The rows of a page, and the place after which the next one begins; None if this is the last one.

    Of what was submitted before `complete_from` some runs are not known: these rows are of the next page.
    """
    found = (*map(ListRow.of, jobs), *(recorded_row(ListRow, run) for run in runs))
    rows = sorted(found, key=lambda row: row.place, reverse=True)
    known = [row for row in rows if row.submitted >= complete_from]
    shown = known[:most]
    if len(known) > most:
        return shown, shown[-1].place
    return shown, RowPlace(complete_from, "") if complete_from else None


# --- runs of the history --------------------------------------------------------------------------


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


# --- the page -------------------------------------------------------------------------------------


ROWS: Final = 50
"""Rows of a page."""
_LONGEST: Final = 400
"""Characters of a mark."""


async def gather(call: Call) -> Mapping[str, Any]:
    filters, after = read(call.query), place_of(call.query.get("after", ""))
    listed = await part(everywhere(call.viewer.source, FOURNOS_JOB, call.site.jobs_namespace))
    jobs: Sequence[Obj] = listed.value or ()
    live = set(map(uid_of, jobs))
    shown = newest(jobs, filters, after, ROWS + 1)
    oldest = parse_time(created(shown[ROWS])) if len(shown) > ROWS else None
    history = await part(_recorded(call, filters, after, live, oldest))
    runs = history.value or RecordedRuns()
    rows, following = merged(shown, runs.runs, ROWS, runs.complete_from)
    return {
        "filters": filters,
        "shortcuts": shortcuts(call.viewer.client.owner or "", call.now),
        "phases": PHASES,
        "rows": rows,
        "next": str(following or ""),
        "searched": following.submitted if following and not following.uid else "",
        "newest": after is not None,
        "marked": _marked(call),
        "live_jobs": listed,
        "history": history,
        "ended": TERMINAL,
        "namespaces": len({row.namespace for row in rows}) > 1,
    }


def _marked(call: Call) -> Sequence[str]:
    """The jobs that are marked for a comparison, on earlier pages of the list, too."""
    query = call.query
    marks = query.getall("job", []) if isinstance(query, MultiMapping) else []
    return tuple(dict.fromkeys(mark[:_LONGEST] for mark in marks))[:COMPARED]


async def _recorded(
    call: Call, filters: Filters, after: RowPlace | None, live: Set[str], oldest: datetime | None
) -> RecordedRuns:
    spaces = await recorded_namespaces(call)
    recorded_by_namespace = await asyncio.gather(
        *(
            recorded(
                call.viewer.client.history,
                filters,
                namespace=namespace,
                after=after,
                live=live,
                oldest=oldest,
                most=ROWS + 1,
            )
            for namespace in spaces
        )
    )
    runs = sorted(
        (run for one in recorded_by_namespace for run in one.runs), key=recorded_place, reverse=True
    )
    return RecordedRuns(runs[: ROWS + 1], max(one.complete_from for one in recorded_by_namespace))


PAGE: Final = Page(
    name="jobs",
    title="Jobs",
    path="/jobs",
    gather=gather,
    watched=(FOURNOS_JOB,),
    shared=False,
    command="fournos list --all-time{all_jobs}",
)
