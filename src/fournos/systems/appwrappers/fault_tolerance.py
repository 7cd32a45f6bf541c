"""The fault tolerance of an AppWrapper: its annotations, then the settings, up to the settings' maximum.

An unusable annotation counts as absent, as the AppWrapper documentation specifies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from fournos.engine.api.values import parse_duration
from fournos.systems.appwrappers.annotations import read, read_codes, read_duration, read_number
from fournos.systems.appwrappers.settings import AppWrapperSettings


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


def tolerance(annotations: Mapping[str, str], settings: AppWrapperSettings) -> Tolerance:
    """Returns the fault tolerance for these annotations."""
    ceiling = parse_duration(settings.grace_maximum)

    def grace(name: str, default: str) -> timedelta:
        requested = read(annotations, name, read_duration)
        return min(max(parse_duration(default) if requested is None else requested, timedelta(0)), ceiling)

    longest = parse_duration(settings.success_ttl)
    ttl = read(annotations, "successTTLDuration", read_duration)
    retries = read(annotations, "retryLimit", read_number)
    return Tolerance(
        admission=grace("admissionGracePeriodDuration", settings.admission_grace),
        warmup=grace("warmupGracePeriodDuration", settings.warmup_grace),
        failure=grace("failureGracePeriodDuration", settings.failure_grace),
        retry_pause=grace("retryPausePeriodDuration", settings.retry_pause),
        retry_limit=settings.retry_limit if retries is None else retries,
        forceful_deletion=grace("forcefulDeletionGracePeriodDuration", settings.forceful_deletion_grace),
        hold=grace("deletionOnFailureGracePeriodDuration", "0s"),
        success_ttl=ttl if ttl is not None and timedelta(0) < ttl < longest else longest,
        terminal_codes=read(annotations, "terminalExitCodes", read_codes) or frozenset(),
        retryable_codes=read(annotations, "retryableExitCodes", read_codes),
    )
