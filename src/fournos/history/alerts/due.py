"""What of the verdicts of a fingerprint is announced now: each change and each silence once.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Final

from fournos.history.regressions.acknowledge import covering, is_open
from fournos.history.regressions.group import FindingGroup, group, runs_in_order
from fournos.history.regressions.review import SeriesReview
from fournos.history.regressions.series import Finding, Kind, SeriesState
from fournos.history.regressions.silent import Silence, silences
from fournos.history.regressions.standing import RECENT

TRIES: Final = 24
"""Looks after which a message that its receiver refuses is given up: two hours."""
UNDER_WAY: Final = timedelta(minutes=2)
"""Longer than any receiver takes for a message, which another recorder of the cluster may be sending."""


class NewsVerdict(StrEnum):
    CONFIRMED = "Confirmed"
    IMPROVED = "Improved"
    CHANGED = "Changed"
    """Confirmed, of a KPI whose direction is not stated."""
    SILENT = "Silent"


VERDICTS: Final = {
    Kind.REGRESSION: NewsVerdict.CONFIRMED,
    Kind.IMPROVEMENT: NewsVerdict.IMPROVED,
    Kind.CHANGE: NewsVerdict.CHANGED,
}


class Delivery(StrEnum):
    SENDING = "Sending"
    """Stored before it is sent: after the end of a process that was killed meanwhile it is sent once more."""
    RESENDING = "Resending"
    """It is sent once more after such an end, and never again."""
    SENT = "Sent"
    FAILED = "Failed"
    """The receiver did not take it."""
    GONE = "Gone"
    """What it is about does not exist any more, or it is for nobody, so it was not sent."""


SETTLED: Final = frozenset({Delivery.SENT, Delivery.RESENDING, Delivery.GONE})


def under_way(delivery: Delivery, made_at: datetime, now: datetime) -> bool:
    """True if another process may be sending a message that was stored at this time."""
    return delivery is Delivery.SENDING and now < made_at + UNDER_WAY


@dataclass(frozen=True, slots=True)
class NewsMark:
    """One series of a message."""

    series: str
    run: str
    at: datetime
    rises: bool
    state: NewsVerdict


@dataclass(frozen=True, slots=True)
class Announced(NewsMark):
    """What is stored of a series that was announced."""

    delivery: Delivery
    tries: int
    made_at: datetime

    def settled(self, now: datetime) -> bool:
        """True if it is not sent again, or not now."""
        return self.delivery in SETTLED or self.tries >= TRIES or under_way(self.delivery, self.made_at, now)


@dataclass(frozen=True, slots=True)
class News:
    """One message: the changes that began with a run, or the series whose last run it is."""

    namespace: str
    namespace_uid: str
    fingerprint: str
    verdict: NewsVerdict
    """The worst of them."""
    run: str
    at: datetime
    before: str
    """The comparable run before that; "" if there is none."""
    changes: tuple[Finding, ...] = ()
    silent: tuple[Silence, ...] = ()

    @property
    def marks(self) -> tuple[NewsMark, ...]:
        return (
            *(
                NewsMark(change.series, change.run, change.at, change.rises, VERDICTS[change.kind])
                for change in self.changes
            ),
            *(
                NewsMark(silence.series, silence.last_run, silence.last_at, False, NewsVerdict.SILENT)
                for silence in self.silent
            ),
        )

    @property
    def id(self) -> str:
        """The same when it is sent again."""
        parts = sorted(f"{one.series} {one.run} {one.rises} {one.state}" for one in self.marks)
        text = "\n".join((self.namespace_uid, self.fingerprint, *parts))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def due(review: SeriesReview, announced: Iterable[Announced], now: datetime) -> list[News]:
    """Returns the messages that are to be sent, the oldest run first.

    Acknowledged changes are left out, and those that were announced at this place of the series: a change
    point that later runs move by one or two is the same verdict.
    """
    settled = [announcement for announcement in announced if announcement.settled(now)]
    order = runs_in_order(review.series)
    messages = [
        *(_of_group(review, group, order) for group in _groups(review, settled, order, now)),
        *_silent(review, settled, now),
    ]
    return sorted(messages, key=lambda news: (news.at, news.id))


def _groups(
    review: SeriesReview, settled: Iterable[Announced], order: Sequence[str], now: datetime
) -> Iterable[FindingGroup]:
    by_id, covered = {one.id: one for one in review.series}, review.covered
    changes = [one for one in settled if one.state is not NewsVerdict.SILENT]

    def open_(finding: Finding) -> bool:
        return (
            finding.state is SeriesState.CONFIRMED
            and now - finding.at <= RECENT
            and is_open(finding, covered.get(finding.id))
            and covering(finding, by_id[finding.series], changes, review.pinned_at) is None
        )

    return group(filter(open_, review.report.findings), order)


def _of_group(review: SeriesReview, joined: FindingGroup, order: Sequence[str]) -> News:
    place = order.index(joined.run)
    return News(
        *_benchmark(review),
        VERDICTS[joined.kind],
        joined.run,
        min(one.at for one in joined.findings),
        order[place - 1] if place else "",
        changes=joined.findings,
    )


def _benchmark(review: SeriesReview) -> tuple[str, str, str]:
    return review.run.identity.namespace, review.run.namespace_uid, review.run.fingerprint


def _silent(review: SeriesReview, settled: Iterable[Announced], now: datetime) -> Iterable[News]:
    # A last run that expires makes an earlier one the last: no news.
    newest = dict(
        sorted(
            (announcement.series, announcement.at)
            for announcement in settled
            if announcement.state is NewsVerdict.SILENT
        )
    )
    open_ = [
        silence
        for silence in silences(review.series, now)
        if silence.series not in newest or silence.last_at > newest[silence.series]
    ]
    open_.sort(key=lambda silence: (silence.last_at, silence.last_run, silence.series))
    for (at, run), each in groupby(open_, key=lambda silence: (silence.last_at, silence.last_run)):
        yield News(*_benchmark(review), NewsVerdict.SILENT, run, at, "", silent=tuple(each))
