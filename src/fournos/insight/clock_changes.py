"""Where the clock of a time zone is set forward or back, and what it shows twice or never.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_STEP: Final = timedelta(hours=12)
"""Between two looks at the offset; no zone has set its clock forward and back within so short a time."""
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A clock that is set from one time to another."""

    moment: datetime
    """When, in UTC."""
    before: datetime
    """What the clock would have shown then, without a time zone."""
    after: datetime
    """What it shows instead, without a time zone."""

    @property
    def skips(self) -> bool:
        """True if the clock is set forward: what lies between is on no clock."""
        return self.after > self.before


def clock_changes(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[ClockChange]:
    """Yields the changes after `begin` and up to `end`, in order, each to the minute."""
    low = begin.astimezone(UTC)
    while low < end:
        high = min(low + _STEP, end.astimezone(UTC))
        if _offset(zone, low) != _offset(zone, high):
            yield _change(zone, low, high)
        low = high


def _change(zone: ZoneInfo, low: datetime, high: datetime) -> ClockChange:
    old, new = _offset(zone, low), _offset(zone, high)
    low = low.replace(second=0, microsecond=0)
    while high - low > _MINUTE:
        middle = low + (high - low) // 2 // _MINUTE * _MINUTE
        low, high = (middle, high) if _offset(zone, middle) == old else (low, middle)
    moment = low + _MINUTE
    clock = moment.replace(tzinfo=None)
    return ClockChange(moment, clock + old, clock + new)


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def shown_twice(clock: datetime) -> bool:
    """True if the clock shows this time, which has a time zone, twice."""
    return clock.replace(fold=0).utcoffset() != clock.replace(fold=1).utcoffset() and exists(clock)


def exists(clock: datetime) -> bool:
    """True if the clock of the time zone shows this time at all."""
    again = clock.astimezone(UTC).astimezone(clock.tzinfo)
    return again.replace(tzinfo=None) == clock.replace(tzinfo=None)


def other_showing(clock: datetime) -> datetime:
    """Returns the other moment, in UTC, at which the clock shows this time."""
    return clock.replace(fold=1 - clock.fold).astimezone(UTC)
