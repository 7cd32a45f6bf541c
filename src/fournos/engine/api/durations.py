"""Durations in Go's format (1h30m, 250ms), and times to live (30m, 12h, 7d)."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ns": Decimal("1e-9"),
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|m|us|µs|μs|ns|s)", re.ASCII)
_LONGEST: Final = Decimal(2**63 - 1) / Decimal(10**9)
"""The longest duration of Go, which counts nanoseconds in 64 bits: about 292 years."""
_LONGEST_TEXT: Final = 128
"""Maximum characters of a duration; Go's longest text, with every unit and nine decimals, has fewer."""
_TTL: Final = re.compile(r"([0-9]+)(m|h|d)", re.ASCII)
_TTL_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def parse_duration(text: str) -> timedelta:
    """Parses a duration that Go's time.ParseDuration accepts, to the microsecond.

    Raises ValueError for anything else, for a duration beyond Go's range, and for more than 128 characters.
    """
    _bound(text, "a duration")
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return timedelta(0)
    seconds, position = Decimal(0), 0
    while match := _PART.match(body, position):
        seconds += Decimal(match[1]) * _UNITS[match[2]]
        position = match.end()
    if not body or position != len(body):
        raise ValueError(f"{text!r} is not a duration such as 1h30m or 30s")
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is longer than a duration can be")
    return sign * timedelta(microseconds=int(seconds * 1_000_000))


def _bound(text: str, what: str) -> None:
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{text[:20]!r}… is longer than {what} can be ({_LONGEST_TEXT} characters)")


def format_duration(length: timedelta) -> str:
    """Returns the duration in the format of Go: 25h0m0s, 1m30s, 1.5s, 250ms, 0s."""
    micros = length // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros == 0:
        return "0s"
    if micros < 1_000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_trimmed(micros, 1_000)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_trimmed(rest, 1_000_000)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _trimmed(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)


def parse_ttl(text: str) -> timedelta:
    """Parses a time to live in the format of FournosJob and FournosCluster.  Raises ValueError."""
    _bound(text, "a time to live")
    match = _TTL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time to live such as 30m, 12h or 7d")
    try:
        return int(match[1]) * _TTL_UNITS[match[2]]
    except OverflowError:
        raise ValueError(f"{text!r} is longer than a time to live can be") from None
