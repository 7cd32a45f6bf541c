"""Comparison and trends: what is asked for, what stands first, what may be done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.client.errors import FournosError
from fournos.history.api.comparisons import Trends
from fournos.history.compare.comparison import Comparison, RowKey, compare
from fournos.history.compare.differences import ComparedRun
from fournos.history.fingerprint import fingerprint
from fournos.history.records import body
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import Acknowledgement, Baseline
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Kpi, Test
from fournos.web.errors import PageError
from fournos.web.pages import trends as trends_page
from fournos.web.pages.compare import MOST, asked, in_order
from fournos.web.pages.trends import trend_rows
from tests.history import a_run, at, by_series
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import AllRights, show, visit

RUNS = f"/apis/history.fournos.dev/v1/namespaces/{NS}/runs"


@pytest.mark.parametrize(
    ("given", "namespace", "jobs"),
    [
        ([], NS, ()),
        (["a", "b", "a", " "], NS, ("a", "b")),
        (["x/a", "x/b"], "x", ("a", "b")),
    ],
)
def test_the_jobs_of_the_address(given: list[str], namespace: str, jobs: tuple[str, ...]) -> None:
    found = asked(given, NS)
    assert (found.namespace, found.jobs) == (namespace, jobs)


@pytest.mark.parametrize("given", [["x/a", "y/b"], ["a", "y/b"], [str(number) for number in range(MOST + 1)]])
def test_jobs_that_cannot_be_compared(given: list[str]) -> None:
    with pytest.raises(FournosError):
        asked(given, NS)


def subject(name: str, value: float, *, up: float = 1.0, **spec: Any) -> ComparedRun:
    kpis = (
        Kpi(kpi_id="a-latency", unit="ms", higher_is_better=False, value=10),
        Kpi(kpi_id="throughput", unit="tok/s", higher_is_better=True, value=value),
        Kpi(kpi_id="curve", values=((1, up), (2, 2 * up)), x_unit="req/s", y_unit="ms"),
    )
    return ComparedRun(name, fingerprint({**SPEC, **spec}, None), (Test(kpis=kpis),), spec=spec)


def compared(*subjects: ComparedRun) -> Comparison:
    past = {
        RowKey("throughput"): [Kpi(kpi_id="throughput", unit="tok/s", value=100 + n % 3) for n in range(12)]
    }
    return compare(subjects, by_series(past))


def test_kpis_that_changed_come_first_with_their_noise() -> None:
    rows = in_order(compared(subject("one", 100), subject("two", 60)).rows)
    assert [row.key.kpi_id for row in rows] == ["throughput", "a-latency", "curve"]
    assert [cell.verdict.value for cell in rows[0].cells] == ["reference", "worse"]
    assert rows[0].band is not None and rows[1].band is None


def trends(**fields: Any) -> Trends:
    """A step from 100 to 80 at the 20th of 40 runs, and a series without changes."""

    def series(name: str, step: float, better: bool | None) -> Series:
        points = [
            Point(f"here/{NS}/u{number}", at(number * 3600), 100 + number % 3 - (step if number >= 20 else 0))
            for number in range(40)
        ]
        return Series(name, name, tuple(points), "tok/s", better)

    found = (series("a-quiet", 0, None), series("throughput", 20, True))
    run = a_run(39, name="newest")
    run = replace(run, identity=replace(run.identity, namespace=NS, uid="u39"))
    return Trends(run, found, judge(found), (), names={f"here/{NS}/u20": "the-cause"}, **fields)


def test_open_regressions_come_first_with_noise_of_the_present_level() -> None:
    rows, more = trend_rows(trends())
    assert ([row.kpi for row in rows], more) == (["throughput", "a-quiet"], 0)
    (change,) = rows[0].changes
    assert (change.name, change.uid, change.is_open) == ("the-cause", "u20", True)
    assert [mark.x for mark in rows[0].plot.marks] == [20]
    band = rows[0].plot.band
    assert band is not None and 70 < band.low < 81 < band.high < 90


async def test_a_series_of_few_runs_says_that_it_is_not_judged() -> None:
    points = tuple(Point(f"here/{NS}/u{number}", at(number * 60), 100.0) for number in range(4))
    series = (Series("throughput", "throughput", points, "tok/s", True),)
    found = replace(trends(), series=series, report=judge(series))
    html = await show(Verdicts(found), trends_page.PAGE, name="u39")
    assert "Not judged yet: 3 of 10 runs" in html
    assert "throughput of 4 runs, times in UTC" in html
    assert "Not judged yet" not in await show(Verdicts(trends()), trends_page.PAGE, name="u39")


def test_an_acknowledged_regression_is_not_open() -> None:
    plain = trends()
    (finding,) = plain.report.findings
    known = Acknowledgement.of(finding, "new driver", "ann", at(0))
    rows, _ = trend_rows(replace(plain, acknowledged={finding.id: known}))
    change = next(row for row in rows if row.changes).changes[0]
    assert not change.is_open and change.acknowledged == known


class Verdicts(Api):
    """Has the trends of u39, and notes what is written."""

    def __init__(self, found: Trends) -> None:
        super().__init__()
        self.written: list[tuple[str, str, Any]] = []
        self.stored[f"{RUNS}/u39/results/trends?kpi="] = body(found, Trends)
        from fournos.history.records import Detail

        self.stored[f"{RUNS}/u39"] = body(Detail(found.run), Detail)

    async def raw(self, method: str, path: str, *given: Any, **more: Any) -> bytes:
        if method != "GET":
            self.written.append((method, path, given[0] if given else None))
            return b"[]"
        return await super().raw(method, path, *given, **more)


async def test_the_page_of_trends() -> None:
    html = await show(Verdicts(trends()), trends_page.PAGE, name="u39")
    assert f'href="/jobs/{NS}/the-cause?uid=u20"' in html
    assert f'action="/trends/{NS}/u39/pin"' in html and f'action="/trends/{NS}/u39/acknowledge"' in html
    assert "No baseline is pinned" in html


async def test_a_pinned_run_can_be_unpinned() -> None:
    found = trends()
    pinned = replace(found, baseline=Baseline(found.run, at(0), "ann", "v1 <release>"))
    html = await show(Verdicts(pinned), trends_page.PAGE, name="u39")
    assert f'action="/trends/{NS}/u39/unpin"' in html and "/pin" not in html.replace("/unpin", "")
    assert "v1 &lt;release&gt;" in html


async def test_without_rights_there_are_no_buttons() -> None:
    denied = {"update runs/baseline", "create runs/acknowledgements"}
    html = await show(Verdicts(trends()), trends_page.PAGE, name="u39", rights=AllRights(denied))
    assert "<form" not in html


async def test_what_the_buttons_write() -> None:
    api = Verdicts(trends())
    async with visit(api) as here:
        for act, form in (
            (trends_page.pin, {"reason": "v1"}),
            (trends_page.unpin, {}),
            (trends_page.acknowledge, {"run": "u20", "kpi": "throughput", "reason": "new driver"}),
            (trends_page.withdraw, {"run": "u20", "kpi": "throughput"}),
        ):
            done = await act(here.call(name="u39"), form)
            assert done.location == f"/trends/{NS}/u39"
            assert "fournos" not in done.notice or f" -n {NS} " in done.notice
        with pytest.raises(PageError, match="shown with the change"):
            await trends_page.acknowledge(here.call(name="u39"), {"run": "u20", "reason": " "})
    assert api.written == [
        ("PUT", f"{RUNS}/u39/baseline", {"reason": "v1"}),
        ("DELETE", f"{RUNS}/u39/baseline", None),
        ("POST", f"{RUNS}/u20/acknowledgements?kpi=throughput", {"reason": "new driver"}),
        ("DELETE", f"{RUNS}/u20/acknowledgements?kpi=throughput", None),
    ]
