"""The routes of benchmarks: how all that is measured stands, one row for each fingerprint of a namespace."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pydantic import Field

from fournos.history.api.authorization import Access
from fournos.history.api.parameters import Scoped, Texts
from fournos.history.api.routes import ApiCall, Route
from fournos.history.records import Run
from fournos.history.regressions.benchmark import Benchmark, benchmark_of, in_order
from fournos.history.regressions.standing import WATCHED
from fournos.history.store.review import MOST, newest_runs, review_in_its_namespace

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


class BenchmarkFilter(Scoped):
    """Which benchmarks are shown."""

    owner: Texts = Field((), description="Owner of the newest run.")
    days: int = Field(
        WATCHED.days, ge=1, le=3650, description="Only those that have results in the last so many days."
    )
    limit: int = Field(MOST, ge=1, le=MOST, description="Those with the newest results, at most so many.")


async def list_benchmarks(service: HistoryService, call: ApiCall) -> list[Benchmark]:
    asked: BenchmarkFilter = call.parameters
    store, scope = await service.store(), call.scope
    runs = await newest_runs(
        store,
        service.now() - timedelta(days=asked.days),
        scope.namespaces,
        call.namespace,
        cluster=scope.cluster,
        owners=asked.owner,
        most=asked.limit,
    )
    return in_order([await _benchmark(service, run) for run in runs])


async def _benchmark(service: HistoryService, run: Run) -> Benchmark:
    reviewed = await review_in_its_namespace(await service.store(), run)
    names = await (await service.results()).names({finding.run for finding in reviewed.report.findings})
    return benchmark_of(reviewed, names, service.now())


ROUTES: Final = (
    Route(
        "GET",
        "/benchmarks",
        "listBenchmarks",
        Access("list", "benchmarks"),
        list_benchmarks,
        list[Benchmark],
        BenchmarkFilter,
    ),
    Route(
        "GET",
        "/namespaces/{namespace}/benchmarks",
        "listNamespacedBenchmarks",
        Access("list", "benchmarks"),
        list_benchmarks,
        list[Benchmark],
        BenchmarkFilter,
    ),
)
