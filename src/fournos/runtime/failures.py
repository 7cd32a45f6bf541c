"""What the systems do about a failed step that is tried again: nothing at first, then they report it."""

from __future__ import annotations

from typing import Final

from fournos.runtime.decision import Decision, EventRecord, StepFailure

REPORTED_AFTER: Final = 3
"""Failed passes in a row: what passes by itself before is not worth an Event."""


def lasts(failure: StepFailure) -> bool:
    """Whether it is worth reporting."""
    return failure.count >= REPORTED_AFTER


def describe(failure: StepFailure) -> str:
    step = type(failure.step).__name__
    return f"{step} failed {failure.count} times in a row, retrying: {failure.message}"


def retried(failure: StepFailure) -> Decision:
    """Another try with backoff; one Event when the failure has lasted, not one for each try after it."""
    if failure.count != REPORTED_AFTER:
        return Decision(retry=True)
    return Decision(events=(EventRecord("Warning", failure.error, describe(failure)),), retry=True)
