"""How much an AppWrapper puts up with: its annotations over the settings, within the settings' ceiling.

An annotation that cannot be read counts as absent, as the AppWrapper documentation says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from fournos.api.durations import parse_duration
from fournos.appwrappers.names import ANNOTATION
from fournos.appwrappers.settings import AppWrapperSettings

_RETRIES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Tolerance:
    admission: timedelta
    """For all pods to appear, and for components to be created."""
    warmup: timedelta
    """For all pods to get ready."""
    failure: timedelta
    retry_pause: timedelta
    retry_limit: int
    forceful_deletion: timedelta
    hold: timedelta
    """How long the resources of a failed AppWrapper stay for debugging."""
    success_ttl: timedelta
    terminal_codes: frozenset[int]
    retryable_codes: frozenset[int] | None
    """None: every code that is not terminal."""


def tolerance(annotations: Mapping[str, str], settings: AppWrapperSettings) -> Tolerance:
    ceiling = parse_duration(settings.grace_maximum)

    def grace(name: str, default: str) -> timedelta:
        try:
            asked = parse_duration(annotations[ANNOTATION + name])
        except (KeyError, ValueError):
            asked = parse_duration(default)
        return min(max(asked, timedelta(0)), ceiling)

    longest = parse_duration(settings.success_ttl)
    try:
        ttl = parse_duration(annotations[ANNOTATION + "successTTLDuration"])
    except (KeyError, ValueError):
        ttl = longest
    retryable = annotations.get(ANNOTATION + "retryableExitCodes")
    return Tolerance(
        admission=grace("admissionGracePeriodDuration", settings.admission_grace),
        warmup=grace("warmupGracePeriodDuration", settings.warmup_grace),
        failure=grace("failureGracePeriodDuration", settings.failure_grace),
        retry_pause=grace("retryPausePeriodDuration", settings.retry_pause),
        retry_limit=_limit(annotations.get(ANNOTATION + "retryLimit"), settings.retry_limit),
        forceful_deletion=grace("forcefulDeletionGracePeriodDuration", settings.forceful_deletion_grace),
        hold=grace("deletionOnFailureGracePeriodDuration", "0s"),
        success_ttl=ttl if timedelta(0) < ttl < longest else longest,
        terminal_codes=_codes(annotations.get(ANNOTATION + "terminalExitCodes", "")),
        retryable_codes=None if retryable is None else _codes(retryable),
    )


def _limit(text: str | None, default: int) -> int:
    try:
        return min(int(text), _RETRIES_MAX) if text is not None else default
    except ValueError:
        return default


def _codes(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(",") if part.strip().isdecimal())
