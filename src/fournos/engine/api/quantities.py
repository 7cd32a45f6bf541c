"""Parsers of untrusted numbers: Kubernetes quantities (2, "500m", "16Gi") and whole numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Final

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII
)
_LONGEST: Final = 64
"""Maximum characters of a quantity.  Python needs seconds to parse a number of a million digits."""
_SUFFIXES: Final = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(value: str | int | float) -> Decimal:
    """Returns the value of a quantity.  Raises ValueError, also for more than 64 characters."""
    if isinstance(value, str) and len(value) > _LONGEST:
        raise ValueError(f"{value[:20]!r}… is longer than a quantity can be ({_LONGEST} characters)")
    return _known(value) if isinstance(value, str) else _parsed(value)


def _parsed(value: str | int | float) -> Decimal:
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is not a quantity such as 2, 500m or 16Gi")
    number, exponent, suffix = match.groups()
    if exponent:
        return Decimal(number + exponent)
    return Decimal(number) * _SUFFIXES.get(suffix or "", Decimal(1))


_known: Final = lru_cache(maxsize=4096)(_parsed)
"""The same few quotas and requests are read again and again."""


def parse_count(text: object, *, most: int = 2**31 - 1) -> int | None:
    """Returns the whole number from 0 to `most` in ASCII digits; None for anything else."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if number <= most else None
