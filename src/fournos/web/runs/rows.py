"""The rows of the list of jobs: of live jobs and of the history in one order, page by page.  Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import quote

from fournos.engine.api.times import format_time, parse_time
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.history.records import Run
from fournos.insight.selection import cluster_of
from fournos.insight.snapshots import valued
from fournos.insight.values import (
    NEW,
    created,
    display_name,
    hardware,
    is_terminal,
    name_of,
    one_line,
    phase_of,
    short,
    spec_of,
    status_of,
)
from fournos.insight.views import Lines
from fournos.web.errors import PageError
from fournos.web.runs.filters import Filters, names

_DASH = "-"


class Place(NamedTuple):
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


def place_of(text: str) -> Place | None:
    """Reads the place after which a page begins; None for the first page.  Raises PageError."""
    if not text:
        return None
    submitted, _, uid = text.partition("~")
    try:
        return Place(format_time(parse_time(submitted)), uid)
    except ValueError:
        raise PageError(422, "Not a page", "The address names no page of the list.", "See /jobs.") from None


@dataclass(frozen=True, slots=True)
class Row:
    """A job in the list."""

    place: Place
    namespace: str
    name: str
    title: str
    """The name for display, if it is another one."""
    phase: str
    owner: str
    cluster: str
    hardware: str
    started: str
    """RFC 3339; "" if it never ran."""
    ran: str
    """How long it ran; "" until it has ended."""
    message: str
    live: bool
    """False if only the history has it."""

    @property
    def uid(self) -> str:
        return self.place.uid

    @property
    def path(self) -> str:
        """The address of its page."""
        path = f"/jobs/{quote(self.namespace, safe='')}/{quote(self.name, safe='')}"
        return path if self.live else f"{path}?uid={quote(self.uid, safe='')}"


def live_row(job: Obj) -> Row:
    times = status_of(job).get("phaseTimes") or {}
    started, finished = str(times.get("running") or ""), str(times.get("finished") or "")
    title = display_name(job)
    return Row(
        place=place(job),
        namespace=key_of(job).namespace,
        name=name_of(job),
        title=title if title != name_of(job) else "",
        phase=phase_of(job),
        owner=str(spec_of(job).get("owner") or ""),
        cluster=cluster_of(job).removeprefix(_DASH),
        hardware=hardware(job).removeprefix(_DASH),
        started=started,
        ran=short(parse_time(finished) - parse_time(started))
        if is_terminal(job) and started and finished
        else "",
        message=one_line(status_of(job).get("message")),
        live=True,
    )


def recorded_row(run: Run) -> Row:
    return Row(
        place=recorded_place(run),
        namespace=run.identity.namespace,
        name=run.name,
        title=run.display_name if run.display_name != run.name else "",
        phase=run.phase or NEW,
        owner=run.owner,
        cluster=run.target,
        hardware=f"{run.gpu_count} x {run.gpu_type}" if run.gpu_count and run.gpu_type else "",
        started=format_time(run.started_at) if run.started_at else "",
        ran=short(run.ended_at - run.started_at) if run.started_at and run.ended_at else "",
        message=one_line(run.message),
        live=False,
    )


def place(job: Obj) -> Place:
    return Place(created(job), uid_of(job))


def recorded_place(run: Run) -> Place:
    return Place(format_time(run.submitted_at.astimezone(UTC)), run.identity.uid)


_PLACED: Final = Lines(lambda _: True, place, lambda job: (job, names(job)))


def newest(jobs: Iterable[Obj], filters: Filters, after: Place | None, most: int) -> list[Obj]:
    """The first `most` live jobs that match, of a page that begins after this place."""
    if (line := valued(jobs, _PLACED).get(True)) is None:
        return []
    end = len(line.items) if after is None else bisect_left(line.places, after)
    matching = (job for job, text in reversed(line.items[:end]) if filters.match(job, text))
    return list(islice(matching, most))


def follows(runs: Iterable[Run], after: Place | None, live: Collection[str]) -> list[Run]:
    """The runs of a page that begins after this place, without those that are live, in the list's order."""
    found = [
        run for run in runs if run.identity.uid not in live and (after is None or recorded_place(run) < after)
    ]
    return sorted(found, key=recorded_place, reverse=True)


def is_enough(runs: Sequence[Run], found: Sequence[Run], most: int) -> bool:
    """True if no further run of the history belongs to a page of `most` rows.

    `runs` are the first of the history, and `found` those that the page may show.  The history orders the
    runs of one second otherwise, so that second must be complete.
    """
    return (
        len(found) >= most and recorded_place(found[most - 1]).submitted > recorded_place(runs[-1]).submitted
    )


def second(at: datetime) -> str:
    """The first second that begins at or after this time, as places have it."""
    begun = at.astimezone(UTC).replace(microsecond=0)
    return format_time(begun if begun == at else begun + timedelta(seconds=1))


def merged(
    jobs: Iterable[Obj], runs: Iterable[Run], most: int, complete_from: str = ""
) -> tuple[list[Row], Place | None]:
    """The rows of a page, and the place after which the next one begins; None if this is the last one.

    Of what was submitted before `complete_from` some runs are not known: these rows are of the next page.
    """
    rows = sorted((*map(live_row, jobs), *map(recorded_row, runs)), key=lambda row: row.place, reverse=True)
    known = [row for row in rows if row.place.submitted >= complete_from]
    shown = known[:most]
    if len(known) > most:
        return shown, shown[-1].place
    return shown, Place(complete_from, "") if complete_from else None
