"""The open findings of a fingerprint: changes without an acknowledgement, and silent series.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fournos.history.regressions.acknowledge import is_open
from fournos.history.regressions.group import group, runs_in_order
from fournos.history.regressions.review import SeriesReview
from fournos.history.regressions.series import Finding, Kind, SeriesState
from fournos.history.regressions.silent import silences
from fournos.systems.schedules.names import SCHEDULE_LABEL

RECENT: Final = timedelta(days=14)
"""Older changes are no news, but for open regressions; `fournos trend` shows them all."""
WATCHED: Final = 6 * RECENT
"""Benchmarks without results for this time are not judged: they are not run any more."""
CONFIRMING: Final = "Confirming"
"""The state of a suspected group whose reruns have not ended."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The groups of open regressions and of recent changes of one fingerprint, and its silent series."""

    groups: tuple[tuple[str, str], ...] = ()
    """Kind and state of each; a state of `SeriesState`, or CONFIRMING."""
    silent: int = 0
    schedule: str = ""
    """The FournosSchedule that made the newest run; "" for a run that somebody submitted."""


def standing(review: SeriesReview, under_way: AbstractSet[str], now: datetime) -> Standing:
    """Counts the groups, so that a cause which moves many KPIs counts once.

    `under_way` are the runs that have reruns which have not ended.  A regression counts until it is no
    longer open, however old it is; improvements and changes are news for a time.
    """
    notes = review.covered
    open_ = [
        one
        for one in review.report.findings
        if (one.kind is Kind.REGRESSION or now - one.at <= RECENT) and is_open(one, notes.get(one.id))
    ]
    groups = group(open_, runs_in_order(review.series))
    states = tuple((str(one.kind), _state(one.state, one.findings, under_way)) for one in groups)
    schedule = review.run.labels.get(SCHEDULE_LABEL, "")
    return Standing(states, len(silences(review.series, now)), schedule)


def _state(state: SeriesState, findings: Iterable[Finding], under_way: AbstractSet[str]) -> str:
    held = state is SeriesState.SUSPECTED and any(one.run in under_way for one in findings)
    return CONFIRMING if held else str(state)


def counts(kind: Kind, standings: Iterable[Standing]) -> dict[str, int]:
    """The number of groups of a kind by state; the states without one are 0."""
    result = dict.fromkeys((str(SeriesState.SUSPECTED), CONFIRMING, str(SeriesState.CONFIRMED)), 0)
    for one in standings:
        for name, state in one.groups:
            if name == kind:
                result[state] += 1
    return result


def silent_by_schedule(standings: Iterable[Standing]) -> dict[str, int]:
    """The number of silent series by the schedule that feeds them; "" for those that none feeds."""
    result: dict[str, int] = {}
    for one in standings:
        result[one.schedule] = result.get(one.schedule, 0) + one.silent
    return result
