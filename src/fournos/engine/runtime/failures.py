"""The shared reaction of all controllers to a failed step that is retried: silent at first, then reported."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Decision, EventRecord, StepFailure

RETRYING: Final = "Retrying"
"""The condition that is True while writes for an object keep failing."""
REFUSED: Final = frozenset({"ForbiddenError", "CredentialsError", "InvalidError"})
"""What the API server, or a webhook or a policy there, answers until a person changes something."""
_NOTE_MAX: Final = 1024

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


def with_refusal(decision: Decision, failure: StepFailure, primary: Obj, now: datetime) -> Decision:
    """Returns the decision with the condition Retrying if the failure is a refusal that lasts.

    The condition and its Event come once for each class of refusal: the text is that of the first time, so
    that a repetition writes nothing.
    """
    if failure.error not in REFUSED or not lasts(failure):
        return decision
    text = describe(failure)
    present = condition(primary, RETRYING)
    if present is not None and (present.get("status"), present.get("reason")) == ("True", failure.error):
        first_text = str(present.get("message") or "")
        return _with_condition(decision, primary, now, "True", failure.error, first_text)
    has_event = any((event.type, event.reason) == ("Warning", failure.error) for event in decision.events)
    events = () if has_event else (EventRecord("Warning", failure.error, text[:_NOTE_MAX]),)
    written = _with_condition(decision, primary, now, "True", failure.error, text)
    return replace(written, events=(*decision.events, *events))


def recovered(decision: Decision, primary: Obj, now: datetime) -> Decision:
    """Returns the decision, whose steps have all succeeded, with a condition Retrying that is False again."""
    if (condition(primary, RETRYING) or {}).get("status") != "True":
        return decision
    return _with_condition(decision, primary, now, "False", "Recovered", "")


def _with_condition(
    decision: Decision, primary: Obj, now: datetime, status: str, reason: str, message: str
) -> Decision:
    """Puts the condition into the wanted status, or into the present one if the decision leaves that."""
    before = primary.get("status") or {}
    status_after = before if decision.status is None else decision.status
    others = [entry for entry in status_after.get("conditions") or () if entry.get("type") != RETRYING]
    present = condition(primary, RETRYING)
    conditions = upsert(
        (*others, present) if present is not None else others,
        Condition(RETRYING, status, reason, message),
        now=now,
        generation=primary["metadata"].get("generation"),
    )
    places = {str(entry.get("type")): index for index, entry in enumerate(before.get("conditions") or ())}
    conditions.sort(key=lambda entry: places.get(str(entry.get("type")), len(places)))
    return replace(decision, status={**status_after, "conditions": conditions})
