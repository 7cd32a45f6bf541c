"""The list of jobs: filters, rows of live jobs and of the history in one order, pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import FournosError
from fournos.history.api.wire import body
from fournos.history.records import Page as RunPage
from fournos.history.records import Run
from fournos.kube.errors import ForbiddenError
from fournos.kube.resource import Key
from fournos.web.errors import PageError
from fournos.web.pages import jobs
from fournos.web.runs import filters, rows
from fournos.web.runs.rows import Place, merged, newest, place_of
from tests.history import a_run, ended
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import visit

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def job(name: str, second: int = 0, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    at = BEGAN + timedelta(seconds=second)
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "labels": {"team": "perf"},
        },
        "spec": {**SPEC, "owner": "ann", **spec},
        "status": {"phase": phase},
    }


def run(name: str, second: int, **fields: Any) -> Run:
    found = ended(replace(a_run(1, name=name), submitted_at=BEGAN + timedelta(seconds=second)), **fields)
    return replace(found, identity=replace(found.identity, namespace=NS, uid=f"uid-{name}"))


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ({}, True),
        ({"phase": "Running"}, True),
        ({"phase": "active"}, True),
        ({"phase": "Failed"}, False),
        ({"owner": "ann"}, True),
        ({"owner": "an"}, False),
        ({"cluster": "cluster-1"}, True),
        ({"cluster": "cluster-2"}, False),
        ({"label": "team=perf"}, True),
        ({"label": "team=perf, model=x"}, False),
        ({"text": "LLA"}, True),
        ({"text": "70B"}, True),
        ({"text": "x"}, False),
        ({"since": "2030-01-01"}, True),
        ({"since": "2030-01-02"}, False),
        ({"until": "2030-01-01"}, True),
        ({"until": "2029-12-31"}, False),
        ({"until": "2030-01-01T00:00:00Z"}, False),
    ],
)
def test_filters_of_live_jobs(query: dict[str, str], matches: bool) -> None:
    found = filters.read(query)
    assert found.match(job("llama-1", displayName="Llama 70B")) is matches
    assert found.fields == query


@pytest.mark.parametrize(
    "query", [{"label": "team"}, {"label": "a!=b"}, {"since": "yesterday"}, {"phase": "Odd"}]
)
def test_a_filter_that_cannot_be_read_is_refused(query: dict[str, str]) -> None:
    with pytest.raises((PageError, FournosError)):
        filters.read(query)


def test_the_command_lists_the_same() -> None:
    found = filters.read({"phase": "Failed", "owner": "ann", "label": "a=b"})
    assert found.command == "fournos list --all-time --phase Failed --owner ann -l a=b"
    assert filters.read({"text": "x"}).command == ""


def test_an_address_of_a_page_that_is_none() -> None:
    with pytest.raises(PageError):
        place_of("yesterday~1")
    assert place_of("") is None
    assert place_of("2030-01-01T00:00:00Z~uid-1") == Place("2030-01-01T00:00:00Z", "uid-1")


def test_pages_show_each_job_once_in_one_order() -> None:
    """Of jobs of the same second, too, which the history orders by other values."""
    live = [job(f"live-{number}", number // 4) for number in range(23)]
    gone = [run(f"gone-{number}", number // 3) for number in range(31)]
    after, shown = None, []
    while True:
        page, after = merged(newest(live, after, 6), rows.follows(gone, after, set())[:6], 5)
        shown += [row.name for row in page]
        if after is None:
            break
        assert len(page) == 5
    assert sorted(shown) == sorted([f"live-{n}" for n in range(23)] + [f"gone-{n}" for n in range(31)])


def test_enough_of_the_history_is_a_complete_second() -> None:
    runs = [run(f"r{number}", 9 - number // 4) for number in range(12)]
    assert rows.is_enough(runs, runs, 8, 12)
    assert not rows.is_enough(runs[:9], runs[:9], 9, 9), "the third second may have more"
    assert rows.is_enough(runs[:9], runs[:9], 9, 20), "there are no more"
    assert not rows.is_enough(runs, runs[:3], 4, 12)


def test_a_row_of_a_job_that_is_gone_leads_to_it_by_its_uid() -> None:
    row = rows.recorded_row(run("one", 0, started_at=BEGAN, ended_at=BEGAN + timedelta(seconds=200)))
    assert (row.path, row.ran, row.live) == (f"/jobs/{NS}/one?uid=uid-one", "3m20s", False)
    assert rows.live_row(job("a/b")).path == f"/jobs/{NS}/a%2Fb"


# --- the page ---------------------------------------------------------------------


class History(Api):
    """Answers the lists of runs, and counts them."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__()
        self.runs = runs
        self.asked: list[dict[str, list[str]]] = []

    async def raw(self, method: str, path: str, *_: object, **__: object) -> bytes:
        query = parse_qs(urlsplit(path).query)
        self.asked.append(query)
        assert urlsplit(path).path.endswith("/runs")
        return body(RunPage(tuple(self.runs[: int(query["limit"][0])])), RunPage)


async def submitted(api: Api, *names: str) -> None:
    for name in names:
        await api.create(
            FOURNOS_JOB, {"metadata": {"name": name, "namespace": NS}, "spec": {**SPEC, "owner": "ann"}}
        )


async def test_live_jobs_and_those_of_the_history() -> None:
    api = History([run("old", -5), run("<i>older</i>", -9)])
    await submitted(api, "new")
    async with visit(api) as here:
        html = await here.show(jobs.PAGE)
    assert html.index(">new</a>") < html.index(">old</a>") < html.index("&lt;i&gt;older")
    assert "<i>" not in html
    assert html.count("The object is gone") == 2


async def test_a_live_job_that_is_recorded_is_shown_once() -> None:
    api = History([run("new", 0)])
    await submitted(api, "new")
    uid = api.job("new")["metadata"]["uid"]
    api.runs = [replace(api.runs[0], identity=replace(api.runs[0].identity, uid=uid))]
    async with visit(api) as here:
        assert (await here.show(jobs.PAGE)).count(">new</a>") == 1


async def test_the_filters_reach_the_history() -> None:
    api = History([])
    async with visit(api) as here:
        query = {
            "phase": "Failed",
            "owner": "ann",
            "cluster": "c1",
            "label": "a=b",
            "text": "x",
            "since": "2029-01-01",
        }
        assert "No such jobs" in await here.show(jobs.PAGE, query)
    (asked,) = api.asked
    assert (asked["phase"], asked["owner"], asked["cluster"]) == (["Failed"], ["ann"], ["c1"])
    assert (asked["label"], asked["text"], asked["since"]) == (["a=b"], ["x"], ["2029-01-01T00:00:00+00:00"])


async def test_without_a_history_live_jobs_are_shown_and_the_page_says_so() -> None:
    api = Api()
    await submitted(api, "new")
    async with visit(api) as here:
        html = await here.show(jobs.PAGE)
    assert ">new</a>" in html
    assert "This cluster has no history" in html


async def test_a_right_that_is_missing_is_named() -> None:
    class Refusing(Api):
        async def raw(self, method: str, path: str, *_: object, **__: object) -> bytes:
            raise ForbiddenError("ann may not list runs.history.fournos.dev", status=403)

    async with visit(Refusing()) as here:
        html = await here.show(jobs.PAGE)
    assert "ann may not list runs.history.fournos.dev" in html
    assert "has no history" not in html


async def test_an_open_tab_reads_the_history_again_when_a_live_job_goes() -> None:
    api = History([])
    await submitted(api, "one", "two")
    async with visit(api) as here:
        kept: dict[str, Any] = {}
        for _ in range(3):
            await jobs.gather(here.call(kept=kept))
        assert len(api.asked) == 1
        await api.delete(FOURNOS_JOB, Key(NS, "one"))
        await here.site.caches.change()
        await jobs.gather(here.call(kept=kept))
        assert len(api.asked) == 2
