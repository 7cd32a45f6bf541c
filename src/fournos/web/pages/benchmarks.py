"""Benchmarks: how all that is measured stands, open regressions first."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from fournos.api.kinds import Resource
from fournos.client.errors import NoHistoryError, NotAllowedError
from fournos.history.regressions.benchmark import FAILING, Benchmark, BenchmarkKpi, BenchmarkState, in_order
from fournos.history.regressions.series import labels_text
from fournos.insight.errors import FournosError
from fournos.web.charts import sparkline
from fournos.web.errors import PageError
from fournos.web.rights import recorded_namespaces
from fournos.web.runs.subject import PagePart, address, compare_address, part, trends_address
from fournos.web.site import Call, Page, allowed_in

RESOURCE: Final = Resource("history.fournos.dev", "v1", "Benchmark", "benchmarks")
"""What rules of the history's API name."""
_FRESH: Final = 30.0
"""Seconds for which the answers of the history are shown before they are asked for again."""
_PATIENCE: Final = 1.0
"""Seconds that a page waits for what stands beside its subject; later answers are in its next rendering."""
_AWAY: Final = 500
"""The status from which on an error says that the history does not answer."""
_READING: Final = 20.0
"""Seconds that the history has for it."""


async def recorded_benchmarks(call: Call, owner: str = "") -> list[Benchmark]:
    """Returns the benchmarks, what asks for somebody first.  Raises FournosError."""
    return await _of(call, await _reach(call), owner)


async def failing_benchmarks(call: Call) -> PagePart[list[Benchmark]]:
    """Returns those with an open regression, as the history last said, and why it does not say it now.

    That it does not answer is kept for a while, too: a page that changes often does not ask each time.
    """
    reach = await _reach(call)
    key, memo = ("failing benchmarks", reach), call.site.memo

    async def read() -> PagePart[list[Benchmark]]:
        answer = await part(_of(call, reach, ""), patience=_READING)
        failing = answer.map(lambda found: [each for each in found if each.state in FAILING])
        if failing.value is not None:
            memo.remember(key, failing.value)
        return failing

    try:
        async with asyncio.timeout(_PATIENCE):
            failing = await memo.get(key, _FRESH, read)
    except TimeoutError:
        failing = PagePart(error=PageError(504, "Too late", "the history has not answered yet.", ""))
    is_away = failing.error is not None and failing.error.status >= _AWAY
    return replace(failing, value=memo.remembered(key)) if is_away else failing


class _Reach(NamedTuple):
    """Whose benchmarks a person reads; persons of the same reach share answers."""

    namespaces: tuple[str, ...]
    allowed: tuple[str, ...]
    """Those of them whose benchmarks the person may list: the history refuses the others."""


async def _reach(call: Call) -> _Reach:
    namespaces = await recorded_namespaces(call, RESOURCE)
    # Asked in each case: what a page asks decides who is shown the same page.
    allowed = await allowed_in(partial(call.viewer.rights.may, "list", RESOURCE), namespaces)
    return _Reach(namespaces, tuple(allowed))


async def _of(call: Call, reach: _Reach, owner: str) -> list[Benchmark]:
    async def read() -> list[Benchmark]:
        history, owners = call.viewer.client.history, (owner,) if owner else ()
        benchmarks: list[Benchmark] = []
        for namespace in reach.namespaces:
            benchmarks += await history.benchmarks(
                *owners, everywhere=not namespace, namespace=namespace or None
            )
        return in_order(benchmarks)

    return await call.site.memo.get(("benchmarks", reach, owner), _FRESH, read)


# --- rows -----------------------------------------------------------------------------------------


KPIS: Final = 5
"""KPIs of a benchmark that are shown, those that ask for somebody first."""
SHOWS: Final = {
    "": ("All", frozenset(BenchmarkState)),
    "failing": ("Failing", FAILING),
    "silent": ("Silent", frozenset({BenchmarkState.SILENT})),
}
"""Value in the address → title, and the states of the benchmarks that are shown."""
TITLES: Final = {BenchmarkState.NOT_JUDGED: "Not judged"}


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A benchmark."""

    benchmark: Benchmark
    kpis: Sequence[BenchmarkKpi]
    more: int
    """KPIs that are not shown."""
    link: str
    """The address of its newest run."""
    since: str
    """The address of the run with which the newest open regression began; "" without one."""
    differs: str
    """The address of the comparison of that run with the one before it; "" without one."""

    def trend(self, kpi: BenchmarkKpi | None = None) -> str:
        """The address of the trends of its newest run, or of one KPI."""
        identity = self.benchmark.run.identity
        return trends_address(identity.namespace, identity.uid, kpi.kpi_id if kpi else "")

    def text(self, kpi: BenchmarkKpi) -> str:
        """What is said of the state of a KPI."""
        return self.benchmark.silence if kpi.state is BenchmarkState.SILENT else kpi.detail


@dataclass(frozen=True, slots=True)
class ShowTab:
    """A choice of benchmarks."""

    title: str
    number: int
    address: str
    chosen: bool


def benchmark_rows(benchmarks: Iterable[Benchmark], show: str) -> list[BenchmarkRow]:
    """The rows of the benchmarks that a tab shows, in their order."""
    states = SHOWS[show][1]
    return [_row(benchmark) for benchmark in benchmarks if benchmark.state in states]


def tabs(benchmarks: Sequence[Benchmark], show: str, owner: str) -> list[ShowTab]:
    """All choices, with the number of benchmarks of each."""
    return [
        ShowTab(
            title,
            sum(benchmark.state in states for benchmark in benchmarks),
            _address({"show": value, "owner": owner}),
            value == show,
        )
        for value, (title, states) in SHOWS.items()
    ]


def _address(query: dict[str, str]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"/benchmarks?{urlencode(given)}" if given else "/benchmarks"


def _row(benchmark: Benchmark) -> BenchmarkRow:
    identity, name = benchmark.run.identity, benchmark.run.name
    began = benchmark.since_name and address(identity.namespace, benchmark.since_name, uid=benchmark.since)
    runs = [f"{identity.namespace}/{uid}" for uid in (benchmark.before, benchmark.since)]
    return BenchmarkRow(
        benchmark,
        benchmark.kpis[:KPIS],
        max(0, len(benchmark.kpis) - KPIS),
        address(identity.namespace, name, uid=identity.uid),
        began,
        compare_address(*runs) if benchmark.before else "",
    )


def line(kpi: BenchmarkKpi) -> Markup:
    """The course of a KPI over its newest runs."""
    return sparkline(kpi.kpi_id, kpi.values, kpi.unit)


# --- the page -------------------------------------------------------------------------------------


async def gather(call: Call) -> Mapping[str, Any]:
    owner = call.query.get("owner", "").strip()[:200]
    show = call.query.get("show", "")
    show = show if show in SHOWS else ""
    problem: FournosError | None = None
    benchmarks: list[Benchmark] = []
    try:
        benchmarks = await recorded_benchmarks(call, owner)
    except (NoHistoryError, NotAllowedError) as error:
        problem = error
    return {
        "rows": benchmark_rows(benchmarks, show),
        "tabs": tabs(benchmarks, show, owner),
        "total": len(benchmarks),
        "show": show,
        "owner": owner,
        "titles": TITLES,
        "labels_text": labels_text,
        "line": line,
        "problem": problem,
        "command": _command(show, owner),
    }


def _command(show: str, owner: str) -> str:
    options = [*(["--show", show] if show else ()), *(["--owner", shlex.quote(owner)] if owner else ())]
    return " ".join(["fournos benchmarks", *options])


PAGE: Final = Page(name="benchmarks", title="Benchmarks", path="/benchmarks", gather=gather, shared=False)
