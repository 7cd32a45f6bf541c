"""Groups findings by run and cause, so that one cause makes one alert.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fournos.history.regressions.series import Finding, Kind, Series, SeriesState, with_labels
from fournos.insight.values import count

NEAR: Final = 2
"""Change points of one cause may lie so many runs apart, as each KPI has noise of its own."""


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings that began with the same run, and what else changed with that run."""

    run: str
    findings: tuple[Finding, ...]
    """Regressions first, the largest change first."""
    causes: tuple[str, ...] = ()
    """Differences of provenance between this run and the one before, such as an image digest."""

    @property
    def kind(self) -> Kind:
        """The worst kind among the findings."""
        kinds = {found.kind for found in self.findings}
        return next(kind for kind in Kind if kind in kinds)

    @property
    def state(self) -> SeriesState:
        """Confirmed if any finding is, refuted if all are."""
        states = {found.state for found in self.findings}
        order = (SeriesState.CONFIRMED, SeriesState.SUSPECTED, SeriesState.REFUTED)
        return next(state for state in order if state in states)

    def __str__(self) -> str:
        first = self.findings[0]
        more = f" and {count(len(self.findings) - 1, 'more KPI')}" if len(self.findings) > 1 else ""
        cause = f"; changed with it: {', '.join(self.causes)}" if self.causes else ""
        notes = dict.fromkeys(one.uncounted for one in self.findings if one.uncounted)
        note = f"; {'; '.join(notes)}" if notes else ""
        series = with_labels(first.kpi_id, first.labels)
        return f"{self.kind} {self.state.lower()}: {series} {size(first)}{more}{cause}{note}"


def size(finding: Finding) -> str:
    """Returns the change in percent; from 0 there is no such number."""
    return "from 0" if finding.change is None else f"{finding.change:+.1%}"


def runs_in_order(series: Iterable[Series]) -> list[str]:
    """Returns all runs of the series, the oldest first."""
    found = {point.run: point.at for one in series for point in one.points}
    return sorted(found, key=lambda run: (found[run], run))


def group(
    findings: Iterable[Finding], order: Sequence[str], causes: Mapping[str, Sequence[str]] | None = None
) -> list[FindingGroup]:
    """Joins findings whose runs are at most NEAR apart.  The newest group comes first.

    `order` has all runs, the oldest first.  `causes` maps a run to what changed with it: of neighbouring runs
    the first one with a known cause gives the group its run.
    """
    known_causes = causes or {}
    place = {run: index for index, run in enumerate(order)}
    ordered = sorted(findings, key=lambda finding: (place[finding.run], finding.kpi_id, finding.series))
    parts: list[list[Finding]] = []
    for finding in ordered:
        if parts and place[finding.run] - place[parts[-1][0].run] <= NEAR:
            parts[-1].append(finding)
        else:
            parts.append([finding])
    return [_group(part, known_causes) for part in reversed(parts)]


def _group(part: list[Finding], causes: Mapping[str, Sequence[str]]) -> FindingGroup:
    runs = list(dict.fromkeys(found.run for found in part))
    run = next((run for run in runs if causes.get(run)), runs[0])
    return FindingGroup(run, tuple(sorted(part, key=_weight)), tuple(causes.get(run, ())))


def _weight(found: Finding) -> tuple[int, float, str, str]:
    size = float("inf") if found.change is None else abs(found.change)
    return list(Kind).index(found.kind), -size, found.kpi_id, found.series
