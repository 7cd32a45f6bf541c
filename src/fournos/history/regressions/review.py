"""What is known of the series of one benchmark: what was found in them, and what people decided.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fournos.history.records import Run
from fournos.history.regressions.acknowledge import Acknowledgement, covered
from fournos.history.regressions.baseline import Baseline
from fournos.history.regressions.judge import Report
from fournos.history.regressions.series import Series


@dataclass(frozen=True, slots=True)
class SeriesReview:
    """The series of the fingerprint of a run, judged."""

    run: Run
    series: Sequence[Series]
    report: Report
    acknowledgements: Sequence[Acknowledgement] = ()
    baseline: Baseline | None = None
    baseline_values: Mapping[str, float] = field(default_factory=dict)
    """The values of the pinned run by series."""

    @property
    def pinned_at(self) -> datetime | None:
        """When the baseline was pinned; None if there is none."""
        return self.baseline.at if self.baseline else None

    @property
    def covered(self) -> dict[str, Acknowledgement]:
        """Id of a finding → the acknowledgement that covers it."""
        return covered(self.report.findings, self.series, self.acknowledgements, self.pinned_at)
