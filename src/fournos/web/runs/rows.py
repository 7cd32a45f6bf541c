"""The rows of the list of jobs: of live jobs and of the history in one order, page by page.  Pure."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote

from fournos.api.times import format_time, parse_time
from fournos.history.records import Run
from fournos.insight.selection import cluster_of
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
from fournos.kube.resource import Obj, key_of, uid_of
from fournos.web.errors import PageError

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


def newest(jobs: Iterable[Obj], after: Place | None, most: int) -> list[Obj]:
    """The first `most` live jobs of a page that begins after this place."""
    return heapq.nlargest(most, (job for job in jobs if after is None or place(job) < after), key=place)


def follows(runs: Iterable[Run], after: Place | None, live: Collection[str]) -> list[Run]:
    """The runs of a page that begins after this place, without those that are live, in the list's order."""
    found = [
        run for run in runs if run.identity.uid not in live and (after is None or recorded_place(run) < after)
    ]
    return sorted(found, key=recorded_place, reverse=True)


def is_enough(runs: Sequence[Run], found: Sequence[Run], most: int, asked: int) -> bool:
    """True if no further run of the history belongs to a page of `most` rows.

    `runs` are the first of the history, `asked` of them at most, and `found` those that the page may show.
    The history orders the runs of one second otherwise, so that second must be complete.
    """
    if len(runs) < asked:
        return True
    return (
        len(found) >= most and recorded_place(found[most - 1]).submitted > recorded_place(runs[-1]).submitted
    )


def merged(jobs: Iterable[Obj], runs: Iterable[Run], most: int) -> tuple[list[Row], Place | None]:
    """The rows of a page, and the place after which the next one begins; None if this is the last one."""
    rows = sorted((*map(live_row, jobs), *map(recorded_row, runs)), key=lambda row: row.place, reverse=True)
    shown = rows[:most]
    return shown, shown[-1].place if len(rows) > most else None
