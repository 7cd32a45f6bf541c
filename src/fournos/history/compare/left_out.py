"""Runs of the same spec that are not compared with a run, and by which part of the fingerprint.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.history.fingerprint import Fingerprint, differs, fingerprint
from fournos.history.records import api_row
from fournos.insight.values import count

_SHOWN: Final = frozenset({"gpu_type", "gpu_count", "cluster_class"})
"""Parts whose values are named; those of the others may be of the spec, which not everybody may read."""


@api_row
@dataclass(frozen=True, slots=True)
class LeftOut:
    """The runs of another fingerprint whose spec measures the same."""

    runs: int
    newest: str
    """The name of the newest of them."""
    uid: str
    """Its UID."""
    parts: tuple[str, ...]
    """The parts in which the fingerprints differ, such as "cluster class big, not small"."""

    def __str__(self) -> str:
        which = self.newest if self.runs == 1 else f"{self.newest} and {self.runs - 1} before"
        return f"{count(self.runs, 'run')} of the same spec left out ({which}): {'; '.join(self.parts)}"


@dataclass(frozen=True, slots=True)
class OtherRuns:
    """The runs of one fingerprint: what their newest one is."""

    runs: int
    name: str
    uid: str
    fingerprint: Fingerprint
    spec: Mapping[str, Any]


def left_out(mine: Fingerprint, spec: Mapping[str, Any], others: Iterable[OtherRuns]) -> tuple[LeftOut, ...]:
    """Returns those of the others whose specs measure the same as `spec`, that of a run with `mine`.

    Their fingerprints differ by values that are not in the spec: the GPUs and the cluster that a job got, or
    the parameters that the Pipeline declared to count at that time.
    """
    chosen = fingerprint(spec)
    return tuple(
        LeftOut(other.runs, other.name, other.uid, _parts(mine, other.fingerprint))
        for other in others
        if other.fingerprint != mine and fingerprint(other.spec) == chosen
    )


def _parts(mine: Fingerprint, theirs: Fingerprint) -> tuple[str, ...]:
    return tuple(
        f"{name} {one.second or '-'}, not {one.first or '-'}" if one.part in _SHOWN else name
        for one in differs(mine, theirs)
        for name in (one.part.replace("_", " "),)
    )
