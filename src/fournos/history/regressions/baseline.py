"""Pinned baselines, and their values by series.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from fournos.history.records import Run, api_row
from fournos.history.results.models import Test, series_id


@api_row
@dataclass(frozen=True, slots=True)
class Baseline:
    """The run that later runs of its fingerprint in its namespace are compared with."""

    run: Run
    at: datetime
    by: str
    reason: str


def baseline_values(fingerprint: str, records: Iterable[Test]) -> dict[str, float]:
    """Returns the scalar of each series in the baseline's run; the median of repeats within the run."""
    values_of: dict[str, list[float]] = {}
    for record in records:
        for kpi in record.kpis if record.success else ():
            if kpi.value is not None:
                values_of.setdefault(series_id(fingerprint, record, kpi), []).append(kpi.value)
    return {name: median(values) for name, values in values_of.items()}
