"""What differs between runs apart from their results: fingerprint, spec, provenance, hardware.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from fournos.history.fingerprint import Fingerprint
from fournos.history.results.models import ResultRecord

_DEEPEST: Final = 16
_LEFT_OUT: Final = frozenset({"shutdown", "suspend", "ttl", "displayName"})
"""Fields of the spec that say nothing about how a job ran."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run that is compared: what it was, and what it measured."""

    name: str
    fingerprint: Fingerprint
    records: tuple[ResultRecord, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """What the target cluster has: driver, GPU models, Kubernetes version."""


class Section(StrEnum):
    FINGERPRINT = "fingerprint"
    """A difference here means that the runs did not measure the same thing."""
    SPEC = "spec"
    PROVENANCE = "provenance"
    HARDWARE = "hardware"


@dataclass(frozen=True, slots=True)
class Difference:
    section: Section
    path: str
    values: tuple[str, ...]
    """One for each subject, in their order; "" where it is absent."""

    def __str__(self) -> str:
        return f"{self.path}: {' | '.join(value or '-' for value in self.values)}"


def differences(subjects: Sequence[ComparedRun]) -> tuple[Difference, ...]:
    """All differences between the subjects, those of the fingerprint first."""
    prints = [_fingerprint(subject.fingerprint) for subject in subjects]
    different = list(_section(Section.FINGERPRINT, prints))
    different += _section(Section.SPEC, [_own(flat(_spec(subject.spec)), subject) for subject in subjects])
    different += _section(
        Section.PROVENANCE, [_own(flat(subject.provenance), subject) for subject in subjects]
    )
    different += _section(Section.HARDWARE, [dict(flat(subject.hardware)) for subject in subjects])
    return tuple(different)


def not_recorded(subjects: Sequence[ComparedRun]) -> tuple[str, ...]:
    """What could differ between the runs and is not recorded of all of them, for people."""
    lacking = [
        f"{text}{_of(names, len(subjects))}"
        for text, has in _RECORDED.items()
        if (names := [subject.name for subject in subjects if not has(subject)])
    ]
    return (*lacking, *_NEVER_RECORDED)


def _of(names: Sequence[str], everyone: int) -> str:
    return f" of {', '.join(names)}" if len(names) < everyone else ""


def _tasks_recorded(subject: ComparedRun) -> bool:
    """True if the steps of all tasks are in the Pipeline itself: of a Task by name only the name is."""
    plan = subject.provenance.get("pipelineSpec") or {}
    tasks = [*(plan.get("tasks") or ()), *(plan.get("finally") or ())]
    return bool(tasks) and all(task.get("taskSpec") for task in tasks)


_RECORDED: Final[Mapping[str, Callable[[ComparedRun], bool]]] = {
    "the spec": lambda subject: bool(subject.spec),
    "the Pipeline": lambda subject: bool(subject.provenance.get("pipelineSpec")),
    "the Tasks that it names (steps, scripts, defaults)": _tasks_recorded,
    "image digests": lambda subject: bool(subject.provenance.get("images")),
    "the engine's revision": lambda subject: bool(
        subject.provenance.get("engine") or not subject.spec.get("executionEngine")
    ),
}
"""What may be recorded of a run → whether it is."""
_NEVER_RECORDED: Final = (
    "ConfigMaps and Secrets",
    "nodes",
    "versions of the target (Kubernetes, driver)",
)


def causes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The differences of provenance between two runs in one line each: what may have caused a change."""
    found = _section(Section.PROVENANCE, [dict(flat(before)), dict(flat(after))])
    return tuple(f"{one.path} {one.values[0] or '-'} -> {one.values[1] or '-'}" for one in found)


def _section(section: Section, flat: Sequence[Mapping[str, str]]) -> Iterator[Difference]:
    for path in sorted({path for one in flat for path in one}):
        values = tuple(one.get(path, "") for one in flat)
        if len(set(values)) > 1:
            yield Difference(section, path, values)


def _own(leaves: Iterable[tuple[str, str]], subject: ComparedRun) -> dict[str, str]:
    """Replaces the run's own name, as in parameters: it differs between any two runs."""
    name = subject.name

    def common(value: str) -> str:
        mine = bool(name) and (value == name or value.startswith(f"{name}-"))
        return f"<job>{value[len(name) :]}" if mine else value

    return {path: common(value) for path, value in leaves}


def _fingerprint(found: Fingerprint) -> dict[str, str]:
    values = {one.name: getattr(found, one.name) for one in fields(Fingerprint)}
    return {
        name: " ".join(value) if isinstance(value, tuple) else str(value or "")
        for name, value in values.items()
    }


def _spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in _LEFT_OUT}


def flat(value: Any, path: str = "", depth: int = _DEEPEST) -> Iterator[tuple[str, str]]:
    """The leaves of a JSON value, by path."""
    if depth and isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from flat(item, f"{path}.{name}" if path else str(name), depth - 1)
    elif depth and isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for index, item in enumerate(value):
            yield from flat(item, f"{path}[{index}]", depth - 1)
    else:
        yield path, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
