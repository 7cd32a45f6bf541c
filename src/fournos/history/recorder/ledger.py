"""The waiting ledger of a run: intervals with a cause, so that every second of waiting has a reason.  Pure.

From the submission to the first start, or to an end without one, the intervals have neither gap nor overlap.
After the first start there may be more of them, when the run is queued again; between those it ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from fournos.api.phase import Cause, Phase
from fournos.history.records import Interval
from fournos.insight.explanation import Explanation
from fournos.insight.values import moment, one_line

TEXT_MAX: Final = 500
INTERVALS_MAX: Final = 200
"""Above it, changes of the text alone make no new interval."""
NOT_OBSERVED: Final = "The recorder did not run"
_WITH_REASON: Final = frozenset({Cause.OPERATOR, Cause.UNKNOWN, Cause.ADMISSION_CHECK, Cause.QUEUE_STOPPED})
"""Causes whose text needs the first supporting message to be useful."""

Waits = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class WaitReason:
    """What a run waits for."""

    cause: Cause
    text: str


def reason_of(explanation: Explanation) -> WaitReason | None:
    """Returns the reason that an explanation gives; None if the object does not wait."""
    if explanation.cause is None:
        return None
    text = explanation.ageless or explanation.verdict
    if explanation.cause in _WITH_REASON and explanation.because:
        text = f"{text} {explanation.because[0]}"
    return WaitReason(explanation.cause, one_line(text)[:TEXT_MAX])


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look at a run shows of its waiting."""

    now: datetime
    begin: datetime
    """When the run was submitted."""
    reason: WaitReason | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    gap: tuple[datetime, datetime] | None = None
    """A time before this look in which the recorder did not run."""
    times: Mapping[str, Any] = field(default_factory=dict)
    """The phase times of the object (`status.phaseTimes`)."""


def advance(waits: Waits, observation: Observation, *, ran_before: bool) -> Waits:
    """Returns the ledger after an observation.  `ran_before`: the first start was observed earlier."""
    if observation.gap is not None:
        waits = unobserved(waits, observation.gap, observation.times, observation.begin)
    if ran_before:
        reason = None if observation.ended_at is not None else observation.reason
        return observe(waits, reason, observation.now, begin=observation.now)
    over = observation.started_at or observation.ended_at
    if over is not None:
        over = max(over, observation.begin)
        return close(
            waits or unobserved((), (observation.begin, over), observation.times, observation.begin), over
        )
    # A run that is being stopped waits for the same as before: the wait ends with the run.
    return (
        waits
        if observation.reason is None
        else observe(waits, observation.reason, observation.now, begin=observation.begin)
    )


def observe(waits: Waits, reason: WaitReason | None, now: datetime, *, begin: datetime) -> Waits:
    """Adds an observation.  `begin` is when the run was submitted, or when it came back into the queue.

    An equal reason continues the open interval.  A clock that was set back gives no negative interval: its
    observations count at the end of the ledger.
    """
    last = waits[-1] if waits else None
    if last is None or last.end is not None:
        if reason is None:
            return waits
        start = max(begin, last.end) if last is not None and last.end is not None else begin
        return (*waits, Interval(start, None, reason.cause, reason.text))
    if reason is None:
        return (*waits[:-1], *_closed(last, now))
    if (reason.cause, reason.text) == (last.cause, last.text):
        return waits
    if reason.cause is last.cause and len(waits) >= INTERVALS_MAX:
        return (*waits[:-1], replace(last, text=reason.text))
    at = max(now, last.start)
    return (*waits[:-1], *_closed(last, at), Interval(at, None, reason.cause, reason.text))


def unobserved(
    waits: Waits, gap: tuple[datetime, datetime], times: Mapping[str, Any], begin: datetime
) -> Waits:
    """Fills a time in which the recorder did not run with what the object's phase times show of it.

    `gap` is that time; `times` are `status.phaseTimes`.  Why the run was pending then is not known.
    """
    last = waits[-1] if waits else None
    if last is not None and last.end is not None:
        return waits  # it did not wait when the recorder stopped
    start = begin if last is None else max(last.start, gap[0])
    if last is not None:
        waits = (*waits[:-1], *_closed(last, start))
    end = max(start, gap[1])
    filled = [
        Interval(max(start, at), min(end, until), reason.cause, reason.text)
        for at, until, reason in _segments(times, start, end)
        if max(start, at) < min(end, until)
    ]
    return (*waits, *filled)


def _segments(
    times: Mapping[str, Any], start: datetime, end: datetime
) -> Iterable[tuple[datetime, datetime, WaitReason]]:
    """Yields the phases between two times, by when each was last entered."""
    phases = [(moment(times.get(phase.traits.time)), reason) for phase, reason in _REASONS.items()]
    entered = sorted(((at, reason) for at, reason in phases if at is not None), key=lambda pair: pair[0])
    if not entered:
        yield start, end, WaitReason(Cause.UNKNOWN, NOT_OBSERVED)
        return
    yield start, entered[0][0], WaitReason(Cause.OPERATOR, "No operator has looked at it yet.")
    for index, (at, reason) in enumerate(entered):
        until = entered[index + 1][0] if index + 1 < len(entered) else end
        yield at, until, reason


_DOING: Final = {
    Phase.RESOLVING: "the job was resolving its requirements",
    Phase.PENDING: "the job was pending",
    Phase.ADMITTED: "the job was admitted, its run being prepared",
    Phase.RUNNING: "the run was being started",
}
_REASONS: Final = {
    phase: WaitReason(Cause(phase.traits.cause or Cause.UNKNOWN), f"{NOT_OBSERVED}; {doing}.")
    for phase, doing in _DOING.items()
}


def close(waits: Waits, at: datetime) -> Waits:
    """Ends the ledger at the first start, or at the end of a run that never started.

    Observations come after the fact, and from another clock than the start: what they show from that moment
    on is cut off.
    """
    before = [interval for interval in waits if interval.start < at]
    if not before:
        return ()
    before[-1] = replace(before[-1], end=at)
    return tuple(before)


def _closed(interval: Interval, at: datetime) -> Waits:
    """Returns the interval with its end; nothing for one without length."""
    return (replace(interval, end=at),) if at > interval.start else ()
