"""The rows of the list of jobs: of live jobs and of the history in one order, page by page.  Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import quote

from fournos.engine.api.values import format_time, parse_time
from fournos.engine.kube.resource import Obj, uid_of
from fournos.history.job_row import recorded_row
from fournos.history.records import Run
from fournos.insight.job_row import JobRow
from fournos.insight.snapshots import valued
from fournos.insight.values import created
from fournos.insight.views import Lines
from fournos.web.errors import PageError
from fournos.web.runs.filters import Filters, names


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


_PLACED: Final = Lines(lambda _: True, place, lambda job: (job, names(job)))


def newest(jobs: Iterable[Obj], filters: Filters, after: RowPlace | None, most: int) -> list[Obj]:
    """The first `most` live jobs that match, of a page that begins after this place."""
    if (line := valued(jobs, _PLACED).get(True)) is None:
        return []
    end = len(line.items) if after is None else bisect_left(line.places, after)
    matching = (job for job, text in reversed(line.items[:end]) if filters.match(job, text))
    return list(islice(matching, most))


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
