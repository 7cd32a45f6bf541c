"""The route of trends: the KPIs of a run over the runs that can be compared with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from fournos.history.api.authorization import Access, Scope
from fournos.history.api.left_out import runs_left_out
from fournos.history.api.parameters import Scoped, Text
from fournos.history.api.routes import ApiCall, Route
from fournos.history.api.runs import found
from fournos.history.compare.differences import LeftOut
from fournos.history.records import Identity, Run, uid_in
from fournos.history.regressions.acknowledge import Acknowledgement
from fournos.history.regressions.baseline import Baseline
from fournos.history.regressions.benchmark import open_regressions
from fournos.history.regressions.group import group, runs_in_order
from fournos.history.regressions.judge import JUDGED, Report
from fournos.history.regressions.series import Finding, Series, labels_text
from fournos.history.regressions.summary import lines, state_of
from fournos.history.results.models import is_version
from fournos.insight.frames import frame

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


@dataclass(frozen=True, slots=True)
class Trends:
    """The series of all KPIs of a fingerprint, and what changed in them."""

    run: Run
    series: tuple[Series, ...]
    report: Report
    summary: tuple[str, ...]
    """One line for each group of changes that began together, the newest first."""
    names: dict[str, str] = field(default_factory=dict)
    """The name of each run of the series, as far as it is still known."""
    acknowledged: dict[str, Acknowledgement] = field(default_factory=dict)
    """The id of a finding → the acknowledgement that covers it."""
    baseline: Baseline | None = None
    """The pinned run of this fingerprint."""
    baseline_values: dict[str, float] = field(default_factory=dict)
    """The values of that run by series."""
    left_out: tuple[LeftOut, ...] = ()
    """Runs of the same spec that are not in the series."""
    versions: dict[str, str] = field(default_factory=dict)
    """The labels of its tests that name a version, such as `image_tag=v0.9`, of each run that has any."""

    @property
    def open_regressions(self) -> tuple[Finding, ...]:
        """The regressions that are neither refuted nor recovered nor acknowledged, the newest first."""
        return open_regressions(self.report, self.acknowledged)

    @property
    def regressed(self) -> bool:
        """True while any regression is open: decides the exit code of `--fail-on regression`."""
        return bool(self.open_regressions)

    @property
    def newly_regressed(self) -> bool:
        """True if an open regression begins with the newest run: `--fail-on new-regression`."""
        newest = {series.points[-1].run for series in self.series if series.points}
        return any(finding.run in newest for finding in self.open_regressions)

    def to_frame(self) -> Any:
        """Returns a pandas DataFrame with one row a value: the oldest of each series first.

        Columns that begin with "test." are labels of the series.  Raises FournosError without pandas.
        """
        return frame(
            {
                "job": self.names.get(point.run, uid_in(point.run)),
                "at": point.at,
                **{f"test.{name}": text for name, text in series.labels.items()},
                "version": self.versions.get(point.run, ""),
                "kpi": series.kpi_id,
                "value": point.value,
                "unit": series.unit,
            }
            for series in self.series
            for point in series.points
        )

    def state_of(self, series: Series) -> str:
        """Returns in one phrase how a series stands."""
        return state_of(series, self.report, self.acknowledged)


class TrendFilter(Scoped):
    """Which series are shown."""

    kind: Text = Field("", description="Kind, where runs of several kinds have this name.")
    kpi: Text = Field("", description="Only this KPI.")
    runs: int = Field(JUDGED, ge=1, le=1000, description="The newest runs of each series.")


async def get_trends(service: HistoryService, call: ApiCall) -> Trends:
    asked: TrendFilter = call.parameters
    run = await found(service, call)
    trends = await trends_of(service, run, call.scope, kpi=asked.kpi, runs=asked.runs)
    return replace(
        trends,
        left_out=await runs_left_out(service, run, call.scope.cluster),
        versions=await _versions(service, trends.series),
    )


async def _versions(service: HistoryService, series: Iterable[Series]) -> dict[str, str]:
    """The versions of the runs of the series, as their tests name them."""
    runs = {point.run for each in series for point in each.points}
    labels = await (await service.results()).labels_of(filter(None, map(Identity.of, runs)))
    return {
        identity.text: text
        for identity, each in labels.items()
        if (text := labels_text({name: value for name, value in each.items() if is_version(name)}))
    }


async def trends_of(
    service: HistoryService, run: Run, scope: Scope, *, kpi: str = "", runs: int = JUDGED
) -> Trends:
    """Judges the series of a run's fingerprint, as far as the caller may read them."""
    reviewed = await service.review(run, scope, kpi=kpi, newest=runs)
    series, report, covered = tuple(reviewed.series), reviewed.report, reviewed.covered
    names = await (await service.results()).names({point.run for each in series for point in each.points})
    summary = tuple(lines(group(report.findings, runs_in_order(series)), names, covered))
    return Trends(
        run, series, report, summary, names, covered, reviewed.baseline, dict(reviewed.baseline_values)
    )


ROUTES: Final = (
    Route(
        "GET",
        "/namespaces/{namespace}/runs/{run}/results/trends",
        "getTrends",
        Access("get", "runs/results"),
        get_trends,
        Trends,
        TrendFilter,
    ),
)
