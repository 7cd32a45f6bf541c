"""The phases of a job with their durations.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fournos.api.phase import PHASE_TIME, TERMINAL
from fournos.engine.kube.resource import Obj
from fournos.insight.values import moment, status_of

_PHASES: Final = {time: phase for phase, time in PHASE_TIME.items()}


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A phase and its duration."""

    phase: str
    length: timedelta
    current: bool
    start: datetime


def timeline(job: Obj, now: datetime) -> list[TimelineEntry]:
    """The phases of the job, in the order of entry.

    A phase that was entered several times counts from the last entry.
    """
    times = status_of(job).get("phaseTimes") or {}
    entered = [(at, name) for name in _PHASES if (at := moment(times.get(name)))]
    # Times are whole seconds, so the fixed order of the phases, which sorting keeps, breaks ties.
    entered.sort(key=lambda pair: pair[0])
    result = []
    for index, (at, name) in enumerate(entered):
        if _PHASES[name] in TERMINAL:
            continue
        following = entered[index + 1][0] if index + 1 < len(entered) else None
        result.append(TimelineEntry(_PHASES[name], (following or now) - at, following is None, at))
    return result
