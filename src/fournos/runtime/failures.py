"""The shared reaction of all controllers to a failed step that is retried: silent at first, then reported."""

from __future__ import annotations

from typing import Final

from fournos.runtime.decision import Decision, EventRecord, StepFailure

REPORTED_AFTER: Final = 3
"""Failed passes in a row before a failure is reported; a shorter failure is not worth an Event."""


def lasts(failure: StepFailure) -> bool:
    """True if the failure has lasted long enough to be reported."""
    return failure.count >= REPORTED_AFTER


def describe(failure: StepFailure) -> str:
    """Returns the message for a failure that is retried."""
    step = type(failure.step).__name__
    return f"{step} failed {failure.count} times in a row, retrying: {failure.message}"


def retried(failure: StepFailure) -> Decision:
    """Returns a decision that retries with backoff.

    It has an Event only after exactly `REPORTED_AFTER` failed passes, not after later ones.
    """
    if failure.count != REPORTED_AFTER:
        return Decision(retry=True)
    return Decision(events=(EventRecord("Warning", failure.error, describe(failure)),), retry=True)
