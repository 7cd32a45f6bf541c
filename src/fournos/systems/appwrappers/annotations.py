"""The annotations that configure an AppWrapper: their format and their bounds.

Every reader accepts text of any length and reads it in time linear to its bound. Admission refuses an
unusable value at creation. An unusable value that arrives later counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from fournos.engine.api.rules import Violation
from fournos.engine.api.values import parse_duration
from fournos.systems.appwrappers.names import ANNOTATION

INT32_MAX: Final = 2**31 - 1
_DURATION_MAX: Final = 64
"""In characters. The longest duration that Go prints has 25."""
_CODES_MAX: Final = 256
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_SHOWN: Final = 40
"""The number of characters of a refused value that a message repeats."""

T = TypeVar("T")


def read_duration(text: str) -> timedelta:
    """Returns a duration in Go's format. Raises ValueError."""
    if len(text) > _DURATION_MAX:
        raise ValueError("too long")
    return parse_duration(text)


def read_number(text: str) -> int:
    """Returns a decimal number of 32 bits. Raises ValueError."""
    if not _NUMBER.fullmatch(text) or not -INT32_MAX <= (number := int(text)) <= INT32_MAX:
        raise ValueError("no number")
    return number


def is_number(text: str) -> bool:
    """True if the text is a number of 32 bits and not negative."""
    try:
        return read_number(text) >= 0
    except ValueError:
        return False


def read_codes(text: str) -> frozenset[int]:
    """Returns exit codes that are separated by commas. Raises ValueError."""
    parts = text.split(",", _CODES_MAX)
    if len(parts) > _CODES_MAX:
        raise ValueError("too many")
    return frozenset(read_number(part.strip()) for part in parts)


@dataclass(frozen=True, slots=True)
class Reader:
    """The function that reads an annotation, and the text that describes valid values."""

    read: Callable[[str], object]
    valid_values: str


_DURATION: Final = Reader(read_duration, "a duration such as 90s or 1h30m")
_CODES: Final = Reader(read_codes, f"exit codes with commas between them, at most {_CODES_MAX}, such as 2,3")

READERS: Final[Mapping[str, Reader]] = {
    "admissionGracePeriodDuration": _DURATION,
    "warmupGracePeriodDuration": _DURATION,
    "failureGracePeriodDuration": _DURATION,
    "retryPausePeriodDuration": _DURATION,
    "forcefulDeletionGracePeriodDuration": _DURATION,
    "deletionOnFailureGracePeriodDuration": _DURATION,
    "successTTLDuration": _DURATION,
    "retryLimit": Reader(read_number, f"a number of at most {INT32_MAX}, such as 3"),
    "terminalExitCodes": _CODES,
    "retryableExitCodes": _CODES,
}
"""The readers, by the annotation's name without the prefix."""


def read(annotations: Mapping[str, str], name: str, how: Callable[[str], T]) -> T | None:
    """Returns the value of an annotation; None if it is absent or unusable."""
    text = annotations.get(ANNOTATION + name)
    try:
        return how(text) if isinstance(text, str) else None
    except ValueError:
        return None


def unusable(annotations: Mapping[str, Any]) -> Iterator[Violation]:
    """Yields a violation per annotation that is present but unusable, with the values that are valid."""
    for name, reader in READERS.items():
        text = annotations.get(ANNOTATION + name)
        if text is None:
            continue
        try:
            reader.read(str(text))
        except ValueError:
            message = f"{shortened(str(text))} cannot be used: write {reader.valid_values}"
            yield Violation(f"metadata.annotations[{ANNOTATION}{name}]", message, "annotation")


def shortened(text: str) -> str:
    """Returns the user's value as messages repeat it."""
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r}… ({len(text)} characters)"
