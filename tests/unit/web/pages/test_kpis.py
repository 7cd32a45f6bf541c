"""The page of KPIs by fields of their runs."""

from __future__ import annotations

from urllib.parse import urlencode

from fournos.history.records import body
from fournos.history.results.models import RunValues, ValuePage
from fournos.web.pages import kpis
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS
from tests.unit.web.calls import Verbs, call, shown, text
from tests.unit.web.test_kpi_groups import MATRIX

WHERE = f"/apis/history.fournos.dev/v1/namespaces/{NS}/results"
BY = [("by", "params"), ("by", "env"), ("by", "hardware")]


def stored(runs: list[RunValues], *query: tuple[str, str]) -> Api:
    api = Api()
    asked = urlencode([("phase", "Succeeded"), *query, *BY, ("limit", "100")])
    api.stored = {f"{WHERE}?{asked}": body(ValuePage(tuple(runs)), ValuePage)}
    return api


async def page(runs: list[RunValues], *asked: tuple[str, str], **query: str) -> str:
    return await shown(kpis.PAGE, call(stored(runs, *asked), query=query))


async def test_a_matrix_is_a_heat_map_of_its_axes() -> None:
    html = await page(MATRIX, ("label", "fournos.dev/matrix=sweep"), label="fournos.dev/matrix=sweep")
    words = text(html)
    assert "tput by hardware.gpuCount and params.model" in words
    assert "darker is higher; higher is better" in words
    assert "tput in tok/s of 6 runs that succeeded, of those with label fournos.dev/matrix=sweep" in words
    assert '<td class="number shade-5">' in html and "1603" in words
    assert '<input type="hidden" name="label" value="fournos.dev/matrix=sweep">' in html


async def test_a_chosen_field_has_median_and_spread_and_a_plot() -> None:
    html = await page(MATRIX, by="test.version")
    words = text(html)
    assert "v1.0 1201.5 800 1603 4" in words and "tput by test.version" in words
    assert 'class="chart"' in html and "median: 2 values" in html


async def test_of_a_series_only_its_fingerprint_counts() -> None:
    html = await page(MATRIX, ("fingerprint", "f00d"), fingerprint="f00d", by="test.version", across="")
    assert "of those with fingerprint f00d" in text(html)


async def test_without_values_or_differences_it_says_what_to_do() -> None:
    assert "No values" in text(await page([]))
    assert "Nothing to group by" in text(await page(MATRIX[:1]))


async def test_without_the_right_to_documents_the_fields_of_jobs_are_not_asked_for() -> None:
    api = Api()
    asked = urlencode([("phase", "Succeeded"), ("limit", "100")])
    api.stored = {f"{WHERE}?{asked}": body(ValuePage(tuple(MATRIX)), ValuePage)}
    words = text(await shown(kpis.PAGE, call(api, rights=Verbs({"list"}))))
    assert "you may not read the documents of runs" in words and "tput by" in words


async def test_without_a_history_it_says_how_to_get_one() -> None:
    words = text(await shown(kpis.PAGE, call(Api())))
    assert "No history" in words and "deploy/history" in words
