"""What differs between runs apart from their results: fingerprint, spec, provenance, hardware."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from fournos.history.fingerprint import Fingerprint
from fournos.history.results.models import Test

_DEEPEST: Final = 16
_LEFT_OUT: Final = frozenset({"shutdown", "suspend", "ttl", "displayName"})
"""Fields of the spec that say nothing about how a job ran."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run that is compared: what it was, and what it measured."""

    name: str
    fingerprint: Fingerprint
    tests: tuple[Test, ...] = ()
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
    """The field."""
    values: tuple[str, ...]
    """One for each subject, in their order; "" where it is absent."""

    def __str__(self) -> str:
        return f"{self.path}: {' | '.join(value or '-' for value in self.values)}"


def differences(subjects: Sequence[ComparedRun]) -> tuple[Difference, ...]:
    """Returns all differences of the subjects, first those of the fingerprint."""
    names = [subject.name for subject in subjects]
    return (
        *_section(Section.FINGERPRINT, [_fingerprint(subject.fingerprint).items() for subject in subjects]),
        *_section(Section.SPEC, [flat(_spec(subject.spec)) for subject in subjects], names),
        *_section(Section.PROVENANCE, _comparable([one.provenance for one in subjects]), names),
        *_section(Section.HARDWARE, [flat(subject.hardware) for subject in subjects]),
    )


def _comparable(provenances: Sequence[Mapping[str, Any]]) -> list[Iterable[tuple[str, str]]]:
    """The leaves of each provenance, with those tasks alone that are recorded of all.

    A run that was recorded by an earlier version, or did not come to a task, has none: that is not a
    difference.  The digest of a task stands for a text that is not there.
    """
    tasks = [one.get("tasks") or {} for one in provenances]
    shared = set(tasks[0]).intersection(*tasks[1:])
    texts = {name for name in shared if all("taskSpec" in one[name] for one in tasks)}
    return [
        flat(
            {
                **provenance,
                "tasks": {
                    name: {
                        part: value
                        for part, value in own[name].items()
                        if part != ("digest" if name in texts else "taskSpec")
                    }
                    for name in shared
                },
            }
        )
        for provenance, own in zip(provenances, tasks, strict=True)
    ]


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
    """True if the steps of all tasks are recorded, or are in the Pipeline itself."""
    if subject.provenance.get("tasks"):
        return True
    plan = subject.provenance.get("pipelineSpec") or {}
    tasks = [*(plan.get("tasks") or ()), *(plan.get("finally") or ())]
    return bool(tasks) and all(task.get("taskSpec") for task in tasks)


def _target_has(subject: ComparedRun, version: str) -> bool:
    target = subject.provenance.get("target") or {}
    return bool(target.get(version) or subject.spec.get("clusterless"))


_RECORDED: Final[Mapping[str, Callable[[ComparedRun], bool]]] = {
    "the spec": lambda subject: bool(subject.spec),
    "the Pipeline": lambda subject: bool(subject.provenance.get("pipelineSpec")),
    "the Tasks that it names (steps, scripts, defaults)": _tasks_recorded,
    "image digests": lambda subject: bool(subject.provenance.get("images")),
    "the engine's revision": lambda subject: bool(
        subject.provenance.get("engine") or not subject.spec.get("executionEngine")
    ),
    "nodes": lambda subject: bool(subject.provenance.get("nodes")),
    "the target's Kubernetes": lambda subject: _target_has(subject, "kubernetes"),
    "the target's GPU drivers": lambda subject: _target_has(subject, "driver"),
}
"""What may be recorded of a run → whether it is."""
_NEVER_RECORDED: Final = ("ConfigMaps and Secrets",)


def causes(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str] = ("", "")
) -> tuple[str, ...]:
    """Returns a line for each difference of provenance between two runs: it may have caused a change.

    `names`: those of the runs.  Results of tasks are left out: they follow from a change.  Nodes come last:
    they differ between many runs.
    """
    changed = _section(Section.PROVENANCE, _comparable((before, after)), names)
    return tuple(
        f"{difference.path} {difference.values[0] or '-'} -> {difference.values[1] or '-'}"
        for difference in sorted(changed, key=lambda difference: difference.path.startswith("nodes."))
        if not _TASK_RESULT.match(difference.path)
    )


_TASK_RESULT: Final = re.compile(r"tasks\..+\.results\.")


def _section(
    section: Section, leaves: Sequence[Iterable[tuple[str, str]]], names: Sequence[str] = ()
) -> Iterator[Difference]:
    """The leaves that differ, also without the name of each run (`names`), which differs between any two."""
    maps = [dict(one) for one in leaves]
    for path in sorted({path for one in maps for path in one}):
        values = tuple(one.get(path, "") for one in maps)
        if len(set(values)) > 1 and names:
            values = tuple(map(without_own_name, values, names))
        if len(set(values)) > 1:
            yield Difference(section, path, differing_lines(values))


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


def without_own_name(text: str, name: str) -> str:
    """Replaces a run's name: of one line as the value or its begin, as in the names of what is made for it.

    In a text of several lines, such as a script in which Tekton has put parameters, it is replaced anywhere.
    """
    if not name:
        return text
    if "\n" in text:
        return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.])", "<job>", text)
    return f"<job>{text[len(name) :]}" if text == name or text.startswith(f"{name}-") else text


def differing_lines(values: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the lines of texts of several lines in which they differ, without those before and after."""
    if not any("\n" in value for value in values):
        return values
    texts = [value.splitlines() for value in values]
    shortest, start, end = min(map(len, texts)), 0, 0
    while start < shortest and len({lines[start] for lines in texts}) == 1:
        start += 1
    while end < shortest - start and len({lines[-1 - end] for lines in texts}) == 1:
        end += 1
    return tuple("\n".join(lines[start : len(lines) - end]) for lines in texts)
