"""Days and parts of days in which a schedule creates nothing.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ExcludedTimes:
    """`spec.exclusions`, read."""

    days: frozenset[date] = frozenset()
    windows: tuple[tuple[time, time], ...] = ()

    def touch(self, begin: datetime, end: datetime, where: ZoneInfo) -> bool:
        """True if anything from `begin` to `end`, both included, is excluded."""
        if not self.days and not self.windows:
            return False
        day, last = begin.astimezone(where).date() - _DAY, end.astimezone(where).date()
        while day <= last:
            if any(since <= end and begin < until for since, until in self._of(day, where)):
                return True
            day += _DAY
        return False

    def _of(self, day: date, where: ZoneInfo) -> Iterator[tuple[datetime, datetime]]:
        """Yields begin and end of what is excluded from this day on."""
        if day in self.days:
            yield _moment(day, time(), where), _moment(day + _DAY, time(), where)
        for since, until in self.windows:
            ends = day if until > since else day + _DAY
            yield _moment(day, since, where), _moment(ends, until, where)


def _moment(day: date, at: time, where: ZoneInfo) -> datetime:
    return datetime.combine(day, at, where).astimezone(UTC)
