"""What people said of the findings of a benchmark, and what is still to tell of it.  Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Final, Protocol, TypeVar

from fournos.history.records import Run, api_row
from fournos.history.regressions.judge import Report
from fournos.history.regressions.series import (
    NEAR,
    Basis,
    Finding,
    Kind,
    Series,
    SeriesState,
    group,
    runs_in_order,
    silences,
)
from fournos.history.results.models import Test, series_id
from fournos.systems.schedules.names import SCHEDULE_LABEL


class PlacedNote(Protocol):
    """What was noted about a finding: where its series changed, and when the note was made."""

    @property
    def series(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def rises(self) -> bool: ...
    @property
    def made_at(self) -> datetime: ...


_Placed = TypeVar("_Placed", bound=PlacedNote)


@api_row
@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a person has decided about a finding."""

    series: str
    run: str
    """The first run of the change, as one text."""
    at: datetime
    """The time of the run, which also places it when its row has been deleted."""
    rises: bool
    reason: str
    by: str
    made_at: datetime

    @classmethod
    def of(cls, finding: Finding, reason: str, by: str, now: datetime) -> Acknowledgement:
        """Acknowledges a finding.  Raises ValueError without a reason."""
        if not reason.strip():
            raise ValueError("an acknowledgement needs a reason")
        return cls(finding.series, finding.run, finding.at, finding.rises, reason.strip(), by, now)


def covered(
    findings: Iterable[Finding],
    series: Iterable[Series],
    acknowledgements: Sequence[Acknowledgement],
    pinned_at: datetime | None = None,
) -> dict[str, Acknowledgement]:
    """Returns id of a finding → the acknowledgement that covers it, of those that have one."""
    by_id = {each.id: each for each in series}
    pairs = (
        (finding.id, covering(finding, by_id[finding.series], acknowledgements, pinned_at))
        for finding in findings
    )
    return {name: acknowledgement for name, acknowledgement in pairs if acknowledgement is not None}


def is_open(finding: Finding, acknowledgement: Acknowledgement | None) -> bool:
    """True for a finding that is neither refuted nor recovered nor acknowledged.

    Commands, the page, metrics, Events and messages all go by this.
    """
    return finding.state is not SeriesState.REFUTED and not finding.recovered and acknowledgement is None


def covering(
    finding: Finding, series: Series, notes: Iterable[_Placed], pinned_at: datetime | None = None
) -> _Placed | None:
    """The newest note that covers the finding; None if there is none.

    `pinned_at` is the time at which the baseline was pinned.  The begin of a distance from the baseline moves
    on with each run: it is covered by what was noted since then, at this place or an earlier one.
    """
    times = [point.at for point in series.points]
    here = _place(times, finding.at)

    def covers(note: _Placed) -> bool:
        distance = here - _place(times, note.at)
        if finding.basis is Basis.BASELINE:
            return distance >= -NEAR and (pinned_at is None or note.made_at >= pinned_at)
        return abs(distance) <= NEAR

    here_too = [
        one for one in notes if one.series == finding.series and one.rises == finding.rises and covers(one)
    ]
    return max(here_too, key=lambda one: one.made_at, default=None)


def near(findings: Iterable[Finding], series: Iterable[Series], run: str) -> list[Finding]:
    """The findings that a person means who names a run: those that began with it, or a run or two from it."""
    orders = {one.id: [point.run for point in one.points] for one in series}

    def means(finding: Finding) -> bool:
        order = orders[finding.series]
        if run not in order:
            return False
        distance = order.index(run) - order.index(finding.run)
        return distance >= -NEAR if finding.basis is Basis.BASELINE else abs(distance) <= NEAR

    return [finding for finding in findings if means(finding)]


def _place(times: list[datetime], at: datetime) -> int:
    """The position of a time among the points."""
    return bisect_left(times, at)


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


RECENT: Final = timedelta(days=14)
"""Older changes are no news, but for open regressions; `fournos trend` shows them all."""
WATCHED: Final = 6 * RECENT
"""Benchmarks without results for this time are not judged: they are not run any more."""
CONFIRMING: Final = "Confirming"
"""The state of a suspected group whose reruns have not ended."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The groups of open regressions and of recent changes of one fingerprint, and its silent series."""

    groups: tuple[tuple[str, str], ...] = ()
    """Kind and state of each; a state of `SeriesState`, or CONFIRMING."""
    silent: int = 0
    schedule: str = ""
    """The FournosSchedule that made the newest run; "" for a run that somebody submitted."""


def standing(review: SeriesReview, under_way: AbstractSet[str], now: datetime) -> Standing:
    """Counts the groups, so that a cause which moves many KPIs counts once.

    `under_way` are the runs that have reruns which have not ended.  A regression counts until it is no
    longer open, however old it is; improvements and changes are news for a time.
    """
    notes = review.covered
    open_ = [
        one
        for one in review.report.findings
        if (one.kind is Kind.REGRESSION or now - one.at <= RECENT) and is_open(one, notes.get(one.id))
    ]
    groups = group(open_, runs_in_order(review.series))
    states = tuple((str(one.kind), _state(one.state, one.findings, under_way)) for one in groups)
    schedule = review.run.labels.get(SCHEDULE_LABEL, "")
    return Standing(states, len(silences(review.series, now)), schedule)


def _state(state: SeriesState, findings: Iterable[Finding], under_way: AbstractSet[str]) -> str:
    held = state is SeriesState.SUSPECTED and any(one.run in under_way for one in findings)
    return CONFIRMING if held else str(state)


def counts(kind: Kind, standings: Iterable[Standing]) -> dict[str, int]:
    """The number of groups of a kind by state; the states without one are 0."""
    result = dict.fromkeys((str(SeriesState.SUSPECTED), CONFIRMING, str(SeriesState.CONFIRMED)), 0)
    for one in standings:
        for name, state in one.groups:
            if name == kind:
                result[state] += 1
    return result


def silent_by_schedule(standings: Iterable[Standing]) -> dict[str, int]:
    """The number of silent series by the schedule that feeds them; "" for those that none feeds."""
    result: dict[str, int] = {}
    for one in standings:
        result[one.schedule] = result.get(one.schedule, 0) + one.silent
    return result
