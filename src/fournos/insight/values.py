"""Reads values of objects, and formats ages, phases and GPUs as texts.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Final, TypeVar

from fournos.api.phase import NEW as NEW
from fournos.api.phase import PHASE_TIME, TERMINAL
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Key as Key
from fournos.engine.kube.resource import Obj as Obj
from fournos.engine.kube.resource import is_terminating as is_terminating
from fournos.engine.kube.resource import key_of as key_of
from fournos.engine.kube.resource import uid_of as uid_of
from fournos.insight.errors import FournosError
from fournos.systems.jobs.names import display_name as display_name

T = TypeVar("T")
R = TypeVar("R")
_PROBLEM: Final = 200
"""Characters of a problem that are shown."""


def phase_of(job: Obj) -> str:
    """The phase of an object of any kind; NEW if its status has none."""
    return str(status_of(job).get("phase") or NEW)


def is_terminal(job: Obj) -> bool:
    return phase_of(job) in TERMINAL


def spec_of(job: Obj) -> Mapping[str, Any]:
    spec = job.get("spec")
    return spec if isinstance(spec, dict) else {}


def status_of(job: Obj) -> Mapping[str, Any]:
    status = job.get("status")
    return status if isinstance(status, dict) else {}


def conditions_of(obj: Obj) -> list[Mapping[str, Any]]:
    return list(status_of(obj).get("conditions") or ())


def pod_phase(pod: Obj) -> str:
    """The phase of a pod; Pending if its status has none yet."""
    return str(status_of(pod).get("phase") or "Pending")


def judged(judge: Callable[[T], R], obj: T, instead: Callable[[str], R]) -> R:
    """Returns what `judge` makes of an object; `instead` with the problem of one that it cannot take.

    For loops over objects of many owners: one that is malformed must not keep the others from the reader.
    """
    try:
        return judge(obj)
    except Exception as error:
        return instead(f"it cannot be read: {type(error).__name__}: {error}"[:_PROBLEM])


def maps_in(value: object) -> Iterator[Mapping[str, Any]]:
    """Yields the maps in a list of an object that nobody has checked."""
    yield from (one for one in (value if isinstance(value, list | tuple) else ()) if isinstance(one, Mapping))


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def namespaces(objects: Iterable[Obj]) -> set[str]:
    return {key_of(one).namespace for one in objects}


def created(obj: Obj) -> str:
    return str(obj["metadata"].get("creationTimestamp") or "")


def short(length: timedelta) -> str:
    """Formats a duration with at most two units: 45s, 3m20s, 2h5m, 4d3h."""
    seconds = max(0, int(length.total_seconds()))
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if minutes:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    return f"{seconds}s"


def moment(text: object) -> datetime | None:
    """Parses a time of the API; None if it is absent or unreadable."""
    try:
        return parse_time(str(text)) if text else None
    except ValueError:
        return None


def since(text: object, now: datetime) -> str:
    """The duration from `text` to now; "-" if `text` is no time."""
    then = moment(text)
    return short(now - then) if then else "-"


def between(start: object, end: object, now: datetime) -> str:
    """The duration from `start` to `end`, or to now without `end`; "-" without `start`."""
    begun = moment(start)
    return short((moment(end) or now) - begun) if begun else "-"


def hardware_of(job: Obj) -> Mapping[str, Any]:
    """The hardware of a job; empty if none is requested.  The resolved one takes precedence over the spec."""
    return (status_of(job).get("resolved") or {}).get("hardware") or spec_of(job).get("hardware") or {}


def hardware(job: Obj) -> str:
    """The GPUs of a job, such as "2 x a100"; all that it accepts as long as it has none."""
    accepted = spec_of(job).get("hardware") or {}
    if status_of(job).get("cluster") or not accepted.get("alternatives"):
        return hardware_text(hardware_of(job))
    return " or ".join(map(hardware_text, (accepted, *accepted["alternatives"])))


def hardware_text(wanted: Mapping[str, Any]) -> str:
    kind, count = wanted.get("gpuType"), wanted.get("gpuCount")
    return f"{count} x {kind}" if kind and count else "-"


def one_line(text: object) -> str:
    """Joins a text of several lines with blanks; "" for None."""
    return " ".join(str(text or "").split())


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def number(value: float | None) -> str:
    """A measured value with five significant digits, or all of a larger number's before the point."""
    if value is None:
        return "-"
    return f"{value:.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.5g}"


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


@dataclass(frozen=True, slots=True)
class SpecDifference:
    """A field of the spec that differs."""

    path: str
    """Relative to the spec, such as hardware.gpuCount; `\\.` is a dot within a name."""
    first: Any
    """The value in the first object; None if the field is absent."""
    second: Any


def differences(first: Obj, second: Obj) -> list[SpecDifference]:
    """Returns the fields that differ, sorted by path.  A list counts as one value."""
    old, new = (dict(leaves(spec_of(one))) for one in (first, second))
    return [
        SpecDifference(path, old.get(path), new.get(path))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields path and value of each field that is not a map, in the form of `SpecDifference.path`."""
    if not isinstance(value, Mapping) or (not value and path):
        yield path, value
        return
    for name, inner in value.items():
        step = str(name).replace(".", "\\.")
        yield from leaves(inner, f"{path}.{step}" if path else step)


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Returns a pandas DataFrame of these rows.  Raises FournosError if pandas is not installed."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise FournosError("pandas is not installed", fix="pip install pandas") from None
    return pandas.DataFrame(list(rows))
