"""The routes that judge results: comparisons of runs, trends of a run, and how benchmarks stand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from fournos.history.api.routes import (
    Access,
    ApiCall,
    Route,
    everywhere_and_in_one,
)
from fournos.history.api.runs import found, named
from fournos.history.compare.comparison import Comparison, compare
from fournos.history.compare.differences import ComparedRun
from fournos.history.fingerprint import Fingerprint, fingerprint
from fournos.history.records import Document, Identity, Parameters, Run, Scope, Text, Texts, uid_in
from fournos.history.regressions.benchmark import (
    Benchmark,
    BenchmarkState,
    benchmark_of,
    in_order,
    lines,
    open_regressions,
    state_of,
)
from fournos.history.regressions.judge import JUDGED, Report
from fournos.history.regressions.review import WATCHED, Acknowledgement, Baseline
from fournos.history.regressions.series import Finding, Series, group, labels_text, runs_in_order
from fournos.history.results.models import is_version
from fournos.history.store.database import StoreUnavailableError
from fournos.history.store.results import MAX_SERIES
from fournos.history.store.verdicts import MOST, newest_runs, review, review_in_its_namespace
from fournos.insight.values import frame

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


FINGERPRINT: Final = "fingerprint"
"""The key of the fingerprint in the provenance."""


def recorded_fingerprint(recorded: Any, job: Mapping[str, Any]) -> Fingerprint:
    """The fingerprint as it was recorded with the cluster of that time, else that of the job alone."""
    if isinstance(recorded, Mapping):
        return Fingerprint(**{**recorded, "args": tuple(recorded.get("args") or ())})
    return fingerprint(job.get("spec") or {}, (job.get("status") or {}).get("resolved"))


log = logging.getLogger(__name__)

UNREADABLE: Final = "its results cannot be judged: see the log of the history"
COMPARED: Final = 20
"""Runs of one comparison."""


class With(Parameters):
    """The runs to which one is compared."""

    kind: Text = Field("", description="Kind, where runs of several kinds have these names.")
    with_: Texts = Field((), alias="with", max_length=COMPARED - 1, description="Name or UID of another run.")
    across: bool = Field(False, description="Judge also runs of different fingerprints.")


async def compare_runs(service: HistoryService, call: ApiCall) -> Comparison:
    """Compares the run of the path, which is the reference, with the others, all of one namespace.

    What differs in their specs and provenance is content of their documents, and takes the right to these.
    """
    asked: With = call.parameters
    runs = [await named(service, call, name) for name in (call.path["run"], *asked.with_)]
    subjects = [await _subject(service, run) for run in runs]
    earlier = await (await service.results()).earlier(
        runs[0].fingerprint,
        Scope((runs[0].namespace_uid,)),
        without=[run.identity for run in runs],
    )
    comparison = await asyncio.to_thread(
        compare, subjects, earlier, fingerprint=runs[0].fingerprint, across=asked.across
    )
    return comparison if all(map(call.details.includes, runs)) else comparison.without_documents()


async def _subject(service: HistoryService, run: Run) -> ComparedRun:
    store = await service.store()
    job = await store.document(run.identity, Document.OBJECT) or {}
    provenance = dict(await store.document(run.identity, Document.PROVENANCE) or {})
    recorded = provenance.pop(FINGERPRINT, None)
    return ComparedRun(
        name=run.name,
        fingerprint=recorded_fingerprint(recorded, job),
        tests=await (await service.results()).of(run.identity, last_attempt=True),
        spec=job.get("spec") or {},
        provenance=provenance,
        hardware={"cluster": run.target} if run.target else {},
    )


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


class TrendFilter(Parameters):
    """Which series are shown."""

    kind: Text = Field("", description="Kind, where runs of several kinds have this name.")
    kpi: Text = Field("", description="Only this KPI.")
    runs: int = Field(JUDGED, ge=1, le=1000, description="The newest runs of each series.")


async def get_trends(service: HistoryService, call: ApiCall) -> Trends:
    asked: TrendFilter = call.parameters
    run = await found(service, call)
    trends = await trends_of(service, run, kpi=asked.kpi, runs=asked.runs)
    return replace(trends, versions=await _versions(service, trends.series))


async def _versions(service: HistoryService, series: Iterable[Series]) -> dict[str, str]:
    """The versions of the runs of the series, as their tests name them."""
    runs = {point.run for each in series for point in each.points}
    labels = await (await service.results()).labels_of(filter(None, map(Identity.of, runs)))
    return {
        identity.text: text
        for identity, each in labels.items()
        if (text := labels_text({name: value for name, value in each.items() if is_version(name)}))
    }


async def trends_of(service: HistoryService, run: Run, *, kpi: str = "", runs: int = JUDGED) -> Trends:
    """Judges the series of a run's fingerprint by the runs of its namespace, as messages and metrics do."""
    scope = Scope((run.namespace_uid,))
    reviewed = await review(await service.store(), run, scope, kpi=kpi, newest=runs)
    series, report, covered = tuple(reviewed.series), reviewed.report, reviewed.covered
    names = await (await service.results()).names({point.run for each in series for point in each.points})
    summary = lines(group(report.findings, runs_in_order(series)), names, covered)
    if len(series) == MAX_SERIES:
        summary.append(f"Only {MAX_SERIES:,} series are judged, the first by their names: name a KPI")
    baseline, values = reviewed.baseline, dict(reviewed.baseline_values)
    return Trends(run, series, report, tuple(summary), names, covered, baseline, values)


class BenchmarkFilter(Parameters):
    """Which benchmarks are shown."""

    owner: Texts = Field((), description="Owner of the newest run.")
    days: int = Field(
        WATCHED.days, ge=1, le=3650, description="Only those that have results in the last so many days."
    )
    limit: int = Field(MOST, ge=1, le=MOST, description="Those with the newest results, at most so many.")


async def list_benchmarks(service: HistoryService, call: ApiCall) -> list[Benchmark]:
    asked: BenchmarkFilter = call.parameters
    runs = await newest_runs(
        await service.store(),
        service.now() - timedelta(days=asked.days),
        call.scope,
        call.namespace,
        owners=asked.owner,
        most=asked.limit,
    )
    return in_order([await _benchmark(service, run) for run in runs])


async def _benchmark(service: HistoryService, run: Run) -> Benchmark:
    """Returns how a benchmark stands; of one that cannot be judged it says so."""
    try:
        reviewed = await review_in_its_namespace(await service.store(), run)
        names = await (await service.results()).names({finding.run for finding in reviewed.report.findings})
        return benchmark_of(reviewed, names, service.now())
    except StoreUnavailableError:
        raise
    except Exception:
        log.exception("the benchmark of the run %s is not judged", run.identity.text)
        return Benchmark(run, BenchmarkState.NOT_JUDGED, (), 0, silence=UNREADABLE)


ROUTES: Final = (
    Route(
        "GET",
        "/namespaces/{namespace}/runs/{run}/results/comparison",
        "compareRuns",
        Access("get", "runs/results"),
        compare_runs,
        Comparison,
        With,
        details=Access("get", "runs/documents"),
    ),
    Route(
        "GET",
        "/namespaces/{namespace}/runs/{run}/results/trends",
        "getTrends",
        Access("get", "runs/results"),
        get_trends,
        Trends,
        TrendFilter,
    ),
    *everywhere_and_in_one(
        "/benchmarks",
        "listBenchmarks",
        Access("list", "benchmarks"),
        list_benchmarks,
        list[Benchmark],
        BenchmarkFilter,
    ),
)
