"""Acknowledgements: findings that a person has looked at, with a reason.  Pure.

A change point moves by a run or two when later runs are added.  An acknowledgement therefore names the
series, the direction and the place in time, and covers any finding of that direction near the place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from fournos.history.records import api_row
from fournos.history.regressions.group import NEAR
from fournos.history.regressions.series import Basis, Finding, Series, SeriesState


class PlacedNote(Protocol):
    """What was noted about a finding: where its series changed, and when the note was made."""

    @property
    def series(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def rises(self) -> bool: ...
    @property
    def made_at(self) -> datetime: ...


_Placed = TypeVar("_Placed", bound=PlacedNote)


@api_row
@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a person has decided about a finding."""

    series: str
    run: str
    """The first run of the change, as one text."""
    at: datetime
    """The time of the run, which also places it when its row has been deleted."""
    rises: bool
    reason: str
    by: str
    made_at: datetime

    @classmethod
    def of(cls, finding: Finding, reason: str, by: str, now: datetime) -> Acknowledgement:
        """Acknowledges a finding.  Raises ValueError without a reason."""
        if not reason.strip():
            raise ValueError("an acknowledgement needs a reason")
        return cls(finding.series, finding.run, finding.at, finding.rises, reason.strip(), by, now)


def covered(
    findings: Iterable[Finding],
    series: Iterable[Series],
    acknowledgements: Sequence[Acknowledgement],
    pinned_at: datetime | None = None,
) -> dict[str, Acknowledgement]:
    """Returns id of a finding → the acknowledgement that covers it, of those that have one."""
    by_id = {each.id: each for each in series}
    pairs = (
        (finding.id, covering(finding, by_id[finding.series], acknowledgements, pinned_at))
        for finding in findings
    )
    return {name: acknowledgement for name, acknowledgement in pairs if acknowledgement is not None}


def is_open(finding: Finding, acknowledgement: Acknowledgement | None) -> bool:
    """True for a finding that is neither refuted nor recovered nor acknowledged.

    Commands, the page, metrics, Events and messages all go by this.
    """
    return finding.state is not SeriesState.REFUTED and not finding.recovered and acknowledgement is None


def covering(
    finding: Finding, series: Series, notes: Iterable[_Placed], pinned_at: datetime | None = None
) -> _Placed | None:
    """The newest note that covers the finding; None if there is none.

    `pinned_at` is the time at which the baseline was pinned.  The begin of a distance from the baseline moves
    on with each run: it is covered by what was noted since then, at this place or an earlier one.
    """
    times = [point.at for point in series.points]
    here = _place(times, finding.at)

    def covers(note: _Placed) -> bool:
        distance = here - _place(times, note.at)
        if finding.basis is Basis.BASELINE:
            return distance >= -NEAR and (pinned_at is None or note.made_at >= pinned_at)
        return abs(distance) <= NEAR

    here_too = [
        one for one in notes if one.series == finding.series and one.rises == finding.rises and covers(one)
    ]
    return max(here_too, key=lambda one: one.made_at, default=None)


def near(findings: Iterable[Finding], series: Iterable[Series], run: str) -> list[Finding]:
    """The findings that a person means who names a run: those that began with it, or a run or two from it."""
    orders = {one.id: [point.run for point in one.points] for one in series}

    def means(finding: Finding) -> bool:
        order = orders[finding.series]
        if run not in order:
            return False
        distance = order.index(run) - order.index(finding.run)
        return distance >= -NEAR if finding.basis is Basis.BASELINE else abs(distance) <= NEAR

    return [finding for finding in findings if means(finding)]


def _place(times: list[datetime], at: datetime) -> int:
    """The position of a time among the points."""
    return bisect_left(times, at)
