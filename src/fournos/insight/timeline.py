"""A job's life as a list of phases with their lengths.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fournos.insight.values import moment, status_of
from fournos.kube.resource import Obj

_PHASES: Final = ("resolving", "pending", "admitted", "running", "stopping", "finished")


@dataclass(frozen=True, slots=True)
class Entry:
    phase: str
    length: timedelta
    current: bool


def timeline(job: Obj, now: datetime) -> list[Entry]:
    """The phases that the job has been in, by the time of entering each (of its last time, if several)."""
    times = status_of(job).get("phaseTimes") or {}
    entered = [(at, name) for name in _PHASES if (at := moment(times.get(name)))]
    # The order of phases breaks ties: times are whole seconds.
    entered.sort(key=lambda pair: (pair[0], _PHASES.index(pair[1])))
    result = []
    for index, (at, name) in enumerate(entered):
        if name == "finished":
            continue
        following = entered[index + 1][0] if index + 1 < len(entered) else None
        result.append(Entry(name.capitalize(), (following or now) - at, following is None))
    return result
