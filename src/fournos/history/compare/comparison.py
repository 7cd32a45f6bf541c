"""Compares the KPIs of runs side by side.  Pure.

Two runs of the same thing differ by noise.  A difference counts as a change if it exceeds what 95 % of all
pairs of comparable runs stay below (the repeatability limit), corrected for the number of KPIs that are
compared, and the minimum effect.  The noise comes from earlier comparable runs; without ten of them there is
no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist, median
from typing import Final

from fournos.history.compare.differences import (
    ComparedRun,
    Difference,
    Section,
    differences,
    not_recorded,
)
from fournos.history.regressions.change_points import MIN_EFFECT, MIN_HISTORY, noise, relative
from fournos.history.regressions.series import with_labels
from fournos.history.results.models import Kpi, series_id, series_labels

_NORMAL: Final = NormalDist()
_TAIL: Final = 0.025
"""Half of the 5 % of pairs that exceed the repeatability limit."""


class KpiVerdict(StrEnum):
    REFERENCE = "reference"
    """The first run, to which the others are compared."""
    BETTER = "better"
    WORSE = "worse"
    CHANGED = "changed"
    """Beyond noise; the direction of the KPI is not stated."""
    NOISE = "within noise"
    NO_HISTORY = "not enough history"
    NOT_COMPARABLE = "not comparable"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class RowKey:
    """One KPI of one test: what is compared between the runs."""

    kpi_id: str
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return with_labels(self.kpi_id, dict(self.labels))


@dataclass(frozen=True, slots=True)
class Cell:
    """The value of one run."""

    value: float | None
    """A scalar, or the mean of a curve; the median of repeats within the run."""
    change: float | None
    """Relative to the reference; None from 0, or without a value."""
    verdict: KpiVerdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    key: RowKey
    unit: str
    higher_is_better: bool | None
    cells: tuple[Cell, ...]
    """One for each run."""
    band: float | None
    """The limit of noise as a relative change; None without enough history."""


@dataclass(frozen=True, slots=True)
class Comparison:
    names: tuple[str, ...]
    differences: tuple[Difference, ...]
    comparable: bool
    """True if all runs have the same fingerprint."""
    across: bool
    """True if runs of different fingerprints were asked to be compared all the same."""
    rows: tuple[Row, ...]
    withheld: bool = False
    """True if differences are left out, because the caller may not read the documents of the runs."""
    not_recorded: tuple[str, ...] = ()
    """What could differ between the runs and is not recorded of all of them."""

    def without_documents(self) -> Comparison:
        """Returns the comparison without what the documents of the runs say: only rows of runs are left."""
        public = tuple(one for one in self.differences if one.section is Section.HARDWARE)
        return replace(self, differences=public, withheld=True, not_recorded=())

    def of(self, *verdicts: KpiVerdict) -> list[tuple[Row, int]]:
        """The rows and positions of runs with one of these verdicts."""
        return [
            (row, place)
            for row in self.rows
            for place, cell in enumerate(row.cells)
            if cell.verdict in verdicts
        ]

    @property
    def regressed(self) -> bool:
        """True if anything is worse: decides the exit code of `--fail-on regression`."""
        return bool(self.of(KpiVerdict.WORSE))


History = Mapping[str, Sequence[float]]
"""The values of earlier comparable runs, by series (`series_id`)."""


def compare(
    subjects: Sequence[ComparedRun], history: History, *, fingerprint: str = "", across: bool = False
) -> Comparison:
    """Compares the runs with the first of them, whose fingerprint in the series of `history` is given.

    Runs of different fingerprints get no verdict unless `across` is set: they measured different things.
    """
    different = differences(subjects)
    comparable = not any(difference.section is Section.FINGERPRINT for difference in different)
    measured = [_measured(subject, fingerprint) for subject in subjects]
    keys = sorted({key for kpis in measured for key in kpis}, key=lambda key: (key.kpi_id, key.labels))
    judged = comparable or across
    rows = [_row(key, [kpis.get(key, ()) for kpis in measured], history, judged, len(keys)) for key in keys]
    names = tuple(subject.name for subject in subjects)
    return Comparison(names, different, comparable, across, tuple(rows), not_recorded=not_recorded(subjects))


_Measured = tuple[Kpi, str]
"""A KPI, and its series: only values of one series are compared."""


def _measured(subject: ComparedRun, fingerprint: str) -> dict[RowKey, tuple[_Measured, ...]]:
    """All KPIs of a run; repeats of a test are values of the same KPI.  Failed tests do not count."""
    by_key: dict[RowKey, tuple[_Measured, ...]] = {}
    for test in subject.tests:
        if test.success:
            labels = tuple(series_labels(test).items())
            for kpi in test.kpis:
                key = RowKey(kpi.kpi_id, labels)
                by_key[key] = (*by_key.get(key, ()), (kpi, series_id(fingerprint, test, kpi)))
    return by_key


def _row(
    key: RowKey, kpis: Sequence[tuple[_Measured, ...]], history: History, judged: bool, count: int
) -> Row:
    measured = [kpi for repeats in kpis for kpi, _ in repeats]
    first, series = next(repeats[0] for repeats in kpis if repeats)
    same = [[kpi for kpi, other in repeats if other == series] for repeats in kpis]
    values = [median(kpi.height for kpi in repeats) if repeats else None for repeats in same]
    band = _band(history.get(series, ()), [len(repeats) for repeats in same], count)
    reference = next((value for value in values if value is not None), None)
    cells = []
    for place, value in enumerate(values):
        if kpis[place] and not same[place]:
            cells.append(Cell(None, None, KpiVerdict.NOT_COMPARABLE, _unlike(kpis[place][0][0], first)))
        elif value is None or reference is None:
            cells.append(
                Cell(None, None, KpiVerdict.MISSING if not kpis[place] else KpiVerdict.NOT_COMPARABLE)
            )
        elif place == 0:
            cells.append(Cell(value, None, KpiVerdict.REFERENCE))
        elif values[0] is None:
            cells.append(Cell(value, None, KpiVerdict.NOT_COMPARABLE, "the first run has no value"))
        else:
            verdict = (
                _verdict(values[0], value, band, _direction(measured))
                if judged
                else KpiVerdict.NOT_COMPARABLE
            )
            cells.append(Cell(value, relative(values[0], value), verdict))
    return Row(
        key,
        first.measured_in,
        _direction(measured),
        tuple(cells),
        None if band is None or reference is None else relative(reference, reference + band),
    )


def _unlike(one: Kpi, other: Kpi) -> str:
    if one.is_curve and one.measured_in == other.measured_in:
        return "measured at other x"
    return f"measured in {one.measured_in or '?'}"


def _direction(kpis: Iterable[Kpi]) -> bool | None:
    """The direction if all runs agree; None if it is not stated, or stated differently."""
    stated = {kpi.higher_is_better for kpi in kpis if kpi.higher_is_better is not None}
    return stated.pop() if len(stated) == 1 else None


def _band(past: Sequence[float], repeats: Sequence[int], count: int) -> float | None:
    """The difference that noise makes between two of the runs; None without enough history."""
    if len(past) < MIN_HISTORY:
        return None
    past_noise = noise(past)
    fewest = sorted(max(1, number) for number in repeats)[:2]
    spread = past_noise.sigma * math.sqrt(sum(1 / number for number in fewest))
    return max(-_NORMAL.inv_cdf(_TAIL / max(1, count)) * spread, MIN_EFFECT * abs(past_noise.centre))


def _verdict(before: float, after: float, band: float | None, higher_is_better: bool | None) -> KpiVerdict:
    if band is None:
        return KpiVerdict.NO_HISTORY
    if abs(after - before) <= band:
        return KpiVerdict.NOISE
    if higher_is_better is None:
        return KpiVerdict.CHANGED
    return KpiVerdict.BETTER if (after > before) == higher_is_better else KpiVerdict.WORSE
