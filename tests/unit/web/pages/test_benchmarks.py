"""The page of benchmarks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fournos.history.records import body
from fournos.history.regressions.benchmark import Benchmark
from fournos.web.charts import sparkline
from fournos.web.pages import benchmarks
from fournos.web.pages.benchmarks import KPIS
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS
from tests.unit.cli.test_benchmarks import SILENT, WORST, YOUNG, row
from tests.unit.history.regressions.made import series
from tests.unit.history.regressions.test_benchmark import GOOD
from tests.unit.web.calls import call, shown, text

WHERE = f"/apis/history.fournos.dev/v1/namespaces/{NS}/benchmarks"


def stored(*rows: Benchmark, owner: str = "") -> Api:
    api = Api()
    query = "days=84" + (f"&owner={owner}" if owner else "")
    api.stored = {f"{WHERE}?{query}": body(list(rows), list[Benchmark])}
    return api


async def page(*rows: Benchmark, **query: str) -> str:
    return await shown(benchmarks.PAGE, call(stored(*rows, owner=query.get("owner", "")), query=query))


async def test_an_open_regression_leads_to_its_run_and_to_what_differs() -> None:
    html = await page(WORST, YOUNG)
    words = text(html)
    assert "Regression -19.8%" in words and "began with nightly-30" in words
    assert 'href="/compare?job=bench/run-029&amp;job=bench/run-030"' in html
    assert 'href="/jobs/bench/nightly-30?uid=run-030"' in html
    assert 'href="/trends/bench/uid-tuesday?kpi=throughput"' in html
    assert "Not judged 2 of 10 runs" in words and "model=llama" in words


@pytest.mark.parametrize(("show", "names"), [("", 3), ("failing", 1), ("silent", 1), ("nonsense", 3)])
async def test_tabs_count_and_choose(show: str, names: int) -> None:
    data = await benchmarks.gather(call(stored(WORST, SILENT, YOUNG), query={"show": show}))
    assert [(tab.title, tab.number) for tab in data["tabs"]] == [("All", 3), ("Failing", 1), ("Silent", 1)]
    assert len(data["rows"]) == names


async def test_a_tab_keeps_the_owner_and_the_command_says_the_same() -> None:
    html = await page(YOUNG, owner="ann", show="failing")
    assert 'href="/benchmarks?show=silent&amp;owner=ann"' in html
    assert "fournos benchmarks --show failing --owner ann" in text(html)
    assert "No regression is open." in text(html)


async def test_further_kpis_are_counted() -> None:
    many = row("many", *(series(GOOD, f"kpi-{number}") for number in range(KPIS + 2)), day=30)
    assert "2 more KPIs" in text(await page(many))


async def test_a_benchmark_of_curves_alone_has_a_row() -> None:
    assert "No single values" in text(await page(replace(row("curves", series([])), kpis=())))


async def test_without_a_history_it_says_how_to_get_one() -> None:
    words = text(await shown(benchmarks.PAGE, call(Api())))
    assert "No history" in words and "deploy/history" in words


def test_a_sparkline_says_its_values_in_words() -> None:
    svg = sparkline("tput", [1.0, 3.0, 2.0], "tok/s")
    assert 'aria-label="tput: 3 values, first 1, last 2, lowest 1, highest 3 tok/s"' in svg
    assert 'points="3.0,21.0 60.0,3.0 117.0,12.0"' in svg
    assert sparkline("tput", []) == ""
    assert 'cy="12.0"' in sparkline("tput", [5.0]), "one value is a dot in the middle"
