"""Acknowledgements: findings that a person has looked at, with a reason.  Pure.

A change point moves by a run or two when later runs are added.  An acknowledgement therefore names the
series, the direction and the place in time, and covers any finding of that direction near the place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fournos.history.regressions.group import NEAR
from fournos.history.regressions.series import Finding, Series


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    series: str
    run: str
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


def acknowledged(
    finding: Finding, series: Series, known: Iterable[Acknowledgement]
) -> Acknowledgement | None:
    """The newest acknowledgement that covers the finding; None if there is none."""
    times = [point.at for point in series.points]
    here = _place(times, finding.at)
    covering = [
        one
        for one in known
        if one.series == finding.series
        and one.rises == finding.rises
        and abs(_place(times, one.at) - here) <= NEAR
    ]
    return max(covering, key=lambda one: one.made_at, default=None)


def _place(times: list[datetime], at: datetime) -> int:
    """The position of a time among the points."""
    return bisect_left(times, at)
