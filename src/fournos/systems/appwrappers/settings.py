"""The setting of the AppWrapper system, and the annotations that configure a single AppWrapper.

Defaults and bounds are those that the AppWrapper documentation gives its annotations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.api.rules import Violation
from fournos.engine.api.values import parse_duration
from fournos.systems.appwrappers.names import ANNOTATION


class AppWrapperSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_APPWRAPPER_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_APPWRAPPER_", extra="ignore", populate_by_name=True)

    workloads: Literal["own", "kueue"] = Field(
        "kueue",
        description="Who makes the Workloads: Kueue's built-in AppWrapper integration, or this operator "
        "(Kueue then lists AppWrapper under externalFrameworks)",
    )


# --- annotations ---------------------------------------------------------------------------------------
# The annotations that configure an AppWrapper: their format and their bounds.
#
# Every reader accepts text of any length and reads it in time linear to its bound. Admission refuses an
# unusable value at creation. An unusable value that arrives later counts as absent.

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


# --- fault tolerance -----------------------------------------------------------------------------------
# The fault tolerance of an AppWrapper: its annotations, then the defaults, up to the maximum.
#
# An unusable annotation counts as absent, as the AppWrapper documentation specifies.

_GRACE_MAX: Final = timedelta(hours=24)
_SUCCESS_TTL_MAX: Final = timedelta(days=7)
_RETRY_LIMIT: Final = 3


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The grace periods, limits and exit codes that apply to one AppWrapper."""

    admission: timedelta
    """The time for all pods to appear, and for components to be created."""
    warmup: timedelta
    """The time for all pods to become ready."""
    failure: timedelta
    retry_pause: timedelta
    retry_limit: int
    forceful_deletion: timedelta
    hold: timedelta
    """How long the resources of a failed AppWrapper stay for debugging."""
    success_ttl: timedelta
    terminal_codes: frozenset[int]
    retryable_codes: frozenset[int] | None
    """Exit codes that allow a retry; None means every code that is not terminal."""


def tolerance(annotations: Mapping[str, str]) -> Tolerance:
    """Returns the fault tolerance for these annotations."""

    def grace(name: str, default: timedelta) -> timedelta:
        requested = read(annotations, f"{name}Duration", read_duration)
        return min(max(default if requested is None else requested, timedelta(0)), _GRACE_MAX)

    ttl = read(annotations, "successTTLDuration", read_duration)
    retries = read(annotations, "retryLimit", read_number)
    return Tolerance(
        admission=grace("admissionGracePeriod", timedelta(minutes=1)),
        warmup=grace("warmupGracePeriod", timedelta(minutes=5)),
        failure=grace("failureGracePeriod", timedelta(minutes=1)),
        retry_pause=grace("retryPausePeriod", timedelta(seconds=90)),
        retry_limit=_RETRY_LIMIT if retries is None else retries,
        forceful_deletion=grace("forcefulDeletionGracePeriod", timedelta(minutes=10)),
        hold=grace("deletionOnFailureGracePeriod", timedelta(0)),
        success_ttl=ttl if ttl is not None and timedelta(0) < ttl < _SUCCESS_TTL_MAX else _SUCCESS_TTL_MAX,
        terminal_codes=read(annotations, "terminalExitCodes", read_codes) or frozenset(),
        retryable_codes=read(annotations, "retryableExitCodes", read_codes),
    )
