"""The dialect of `spec.schedules`: five fields as in Debian's cron, and five names for common times.  Pure.

A time that a clock change skips is moved to the first minute after the gap, one that it doubles counts at its
first occurrence, both only for expressions whose minute and hour begin with no star; an expression that
begins with one follows the clock, so that `0 * * * *` counts twice in the doubled hour.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
"""The names, of which cronsim has none."""
DIALECT: Final = (
    "write five fields as in Debian's cron (minute, hour, day of month, month, day of week; "
    "each *, a number, a range a-b, a list a,b or a step */n; months and days of the week also as JAN or "
    "MON), "
    f"or one of {', '.join(MACROS)}; L, W, # and a field of seconds are of other dialects"
)

_MONTHS: Final = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_DAYS: Final = "SUN|MON|TUE|WED|THU|FRI|SAT"


def _field(names: str = "") -> str:
    value = rf"([0-9]{{1,2}}{f'|{names}' if names else ''})"
    term = rf"([*]|{value}(-{value})?)(/[0-9]{{1,2}})?"
    return rf"{term}(,{term})*"


PATTERN: Final = (
    rf"({'|'.join(MACROS)}|{_field()} +{_field()} +{_field()} +{_field(_MONTHS)} +{_field(_DAYS)})"
)
"""The syntax, as a regular expression for the API server; whether a day exists is known to `cron` alone."""
_LAST_YEAR: Final = 9998
"""What is added to a time, such as its jitter, stays within the year 9999, the last that there is."""
_BEFORE: Final = timedelta(hours=3)
"""How much earlier a search begins: at a clock change the first times found depend on where it begins."""


def cron(text: str) -> str:
    """Returns the expression in five fields.  Raises ValueError, whose message names the dialect."""
    if not re.fullmatch(PATTERN, text, re.ASCII):
        raise ValueError(f"{text!r:.80} is no time of a schedule: {DIALECT}")
    expression = MACROS.get(text, text)
    try:
        next(CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        raise ValueError(f"{text!r:.80} is no time of a schedule ({error}): {DIALECT}") from None
    return expression


def zone(name: str) -> ZoneInfo:
    """Returns the time zone.  Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{name!r:.80} is no time zone of the IANA database: write Europe/Berlin or Etc/UTC"
        ) from None


def times(expressions: Sequence[str], where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yields the times after `after` in UTC, ascending, each once."""
    newest = after
    for moment in heapq.merge(*(_times(expression, where, after) for expression in expressions)):
        if moment > newest:
            newest = moment
            yield moment


def _times(expression: str, where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    try:
        for moment in CronSim(expression, (after - _BEFORE).astimezone(where)):
            if moment.year > _LAST_YEAR:
                return
            yield moment.astimezone(UTC)
    except OverflowError:  # there is no year 10000
        return
