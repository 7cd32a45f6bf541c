"""Texts of Kubernetes and what they mean: times (RFC 3339, UTC, whole seconds), durations, quantities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_UP, Decimal
from functools import lru_cache
from typing import Any, Final

# --- times ------------------------------------------------------------------------------------------


def format_time(moment: datetime) -> str:
    """Returns the time in the format of metav1.Time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Parses a time; fractions of a second are accepted.  Raises ValueError if it is not RFC 3339."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is not within the years 1 to 9999 of UTC") from None


def creation_time(obj: Mapping[str, Any]) -> datetime:
    """Returns when the API server created the object."""
    return parse_time(obj["metadata"]["creationTimestamp"])


# --- durations --------------------------------------------------------------------------------------
# Durations in Go's format (1h30m, 250ms), and times to live (30m, 12h, 7d).

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


# --- quantities -------------------------------------------------------------------------------------
# Parsers of untrusted numbers: Kubernetes quantities (2, "500m", "16Gi") and whole numbers.

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,9})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII
)
_LONGEST_NUMBER: Final = 64
"""Maximum characters of a quantity.  Python needs seconds to parse a number of a million digits."""
LARGEST: Final = Decimal(2**63 - 1)
"""The largest quantity: Kubernetes takes a larger one, such as 1e1000, for this one."""
_SMALLEST: Final = Decimal("1e-9")
"""The smallest part: Kubernetes rounds up to it."""
_SUFFIXES: Final = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(value: str | int | float) -> Decimal:
    """Returns the value of a quantity, bounded as by Kubernetes: nothing that is computed with it overflows.

    Raises ValueError for what is no quantity, and for more than 64 characters.
    """
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        raise ValueError(f"{value[:20]!r}… is longer than a quantity can be ({_LONGEST_NUMBER} characters)")
    return _known(value) if isinstance(value, str) else _parsed(value)


def _parsed(value: str | int | float) -> Decimal:
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is not a quantity such as 2, 500m or 16Gi")
    number, exponent, suffix = match.groups()
    amount = Decimal(number + (exponent or "")).copy_abs()
    if suffix and amount:
        amount *= _SUFFIXES[suffix]
    amount = min(amount, LARGEST) if amount >= _SMALLEST or not amount else _SMALLEST
    amount = amount.quantize(_SMALLEST, ROUND_UP) if amount % 1 else Decimal(int(amount))
    return amount.copy_negate() if number.startswith("-") else amount


def quantity_of(value: object) -> Decimal:
    """Returns the value of a quantity in an object of others; 0 for what is none.

    For readers of many objects: one that is malformed must not keep them from the others.
    """
    try:
        return parse_quantity(value if isinstance(value, str | int | float) else str(value)[:_LONGEST_NUMBER])
    except ValueError:
        return Decimal(0)


_known: Final = lru_cache(maxsize=4096)(_parsed)
"""The same few quotas and requests are read again and again."""


def parse_count(text: object, *, most: int = 2**31 - 1) -> int | None:
    """Returns the whole number from 0 to `most` in ASCII digits; None for anything else."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if number <= most else None


# --- text -------------------------------------------------------------------------------------------
# Escapes control characters in untrusted text, so that it cannot control a terminal.

_CLASS: Final = r"\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
"""C0 and C1 controls, which begin terminal commands, and characters that change the direction of text."""
_CONTROL: Final = re.compile(f"[{_CLASS}]")
_STEERS: Final = re.compile(f"(?![\\t\\n])[{_CLASS}]")
RE2_CONTROL: Final = r"[\x00-\x1f\x7f-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}]"
"""The same class in the regular expression syntax of CEL's `matches` (RE2)."""


def has_control(text: str) -> bool:
    """True if the text has a character that no name or title needs; line ends and tabs are among them."""
    return _CONTROL.search(text) is not None


def escaped(text: str) -> str:
    r"""Returns the text with control characters escaped (\x1b for an escape); line ends and tabs stay."""
    return _STEERS.sub(_visible, text)


def escaped_line(text: str) -> str:
    r"""Like `escaped`, for text that must stay on one line: a line end becomes \x0a."""
    return _CONTROL.sub(_visible, text)


def escaped_json(document: str) -> str:
    """Returns an equivalent JSON document without such characters."""
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# --- settings --------------------------------------------------------------------------------------------


def with_placeholder(pattern: str, name: str, *, example: str = "prefix") -> str:
    """Returns the pattern of a name unchanged.  Raises ValueError if it does not contain `{name}` once."""
    if pattern.count(f"{{{name}}}") != 1:
        raise ValueError(f"must contain {{{name}}} exactly once, like '{example}-{{{name}}}'")
    return pattern
