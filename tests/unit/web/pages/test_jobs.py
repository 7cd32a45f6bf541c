"""The list of jobs: filters, and live jobs and the history in one order."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.values import parse_time
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.history.records import Page as RunPage
from fournos.history.records import Run, body, recorded_row
from fournos.web.errors import PageError
from fournos.web.pages import jobs
from fournos.web.pages.jobs import RowPlace, merged, newest, place_of
from fournos.web.rights import RUNS
from fournos.web.runs import filters
from tests.history import a_run, ended
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import AllRights, show, visit


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
        until = parse_time(query["until"][0]) if "until" in query else None
        every = sorted(self.runs, key=lambda one: one.submitted_at, reverse=True)
        every = [one for one in every if until is None or one.submitted_at < until]
        begin, limit = int(query.get("cursor", ["0"])[0]), int(query["limit"][0])
        end = begin + limit
        return body(RunPage(tuple(every[begin:end]), str(end) if end < len(every) else ""), RunPage)


async def submitted(api: Api, *names: str) -> None:
    for name in names:
        await api.create(
            FOURNOS_JOB, {"metadata": {"name": name, "namespace": NS}, "spec": {**SPEC, "owner": "ann"}}
        )


async def test_a_wrong_filter_is_marked_and_the_page_stays() -> None:
    api = Api()
    await submitted(api, "one")
    async with visit(api) as here:
        html = await here.show(jobs.PAGE, {"since": "<foo>", "owner": "ann", "label": "a"})
        other = await here.show(jobs.PAGE, {"since": "<foo>", "owner": "bob"})
    field = html.split('name="since"')[1].split("</label>")[0]
    assert 'value="&lt;foo&gt;"' in field and 'aria-invalid="true" aria-describedby="wrong-since"' in field
    assert 'id="wrong-since"' in field and "is not a date. Write it like 2026-03-31" in field
    assert "not filtered by Labels and From" in html and ">one</a>" in html
    assert "aria-invalid" not in html.split('name="until"')[1]
    assert 'name="owner" value="bob"' in other and ">one</a>" not in other


async def test_live_jobs_and_those_of_the_history() -> None:
    api = History([run("old", -5), run("<i>older</i>", -9)])
    await submitted(api, "new")
    html = await show(api, jobs.PAGE)
    assert html.index(">new</a>") < html.index(">old</a>") < html.index("&lt;i&gt;older")
    assert "<i>" not in html
    assert html.count("The object is gone") == 2


async def test_a_live_job_that_is_recorded_is_shown_once() -> None:
    api = History([run("new", 0)])
    await submitted(api, "new")
    uid = api.job("new")["metadata"]["uid"]
    api.runs = [replace(api.runs[0], identity=replace(api.runs[0].identity, uid=uid))]
    assert (await show(api, jobs.PAGE)).count(">new</a>") == 1


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
    html = await show(api, jobs.PAGE)
    assert ">new</a>" in html
    assert "This cluster has no history" in html


async def test_a_right_that_is_missing_is_named() -> None:
    class Refusing(Api):
        async def raw(self, method: str, path: str, *_: object, **__: object) -> bytes:
            raise ForbiddenError("ann may not list runs.history.fournos.dev", status=403)

    html = await show(Refusing(), jobs.PAGE)
    assert "ann may not list runs.history.fournos.dev" in html
    assert "has no history" not in html


async def test_the_runs_of_several_namespaces_are_one_list() -> None:
    """Of a person who may read two of three namespaces: the history refuses a request for all of them."""

    class Own(AllRights):
        async def may(self, verb: str, resource: Resource, namespace: str = "", **more: str) -> bool:
            return resource != RUNS or namespace in ("a", "b")

    class Spaces(Api):
        async def raw(self, method: str, path: str, *_: object, **__: object) -> bytes:
            space = urlsplit(path).path.split("/")[-2]
            assert space in ("a", "b"), path
            seconds = range(0, 80, 2) if space == "a" else range(1, 81, 2)
            runs = [run(f"{space}{one}", one) for one in reversed(seconds)]
            until = parse_qs(urlsplit(path).query).get("until")
            return body(
                RunPage(tuple(r for r in runs if not until or r.submitted_at < parse_time(until[0]))), RunPage
            )

    api = Spaces()
    for space in "abc":
        await api.create(LOCAL_QUEUE, {"metadata": {"name": "queue", "namespace": space}})
    async with visit(api, Own()) as here:
        names, after = [], ""
        while True:
            data = await jobs.gather(here.call({"after": after}))
            names += [row.name for row in data["rows"]]
            if not (after := data["next"]):
                break
    assert names == [f"{'ab'[one % 2]}{one}" for one in reversed(range(80))]


# --- The list of jobs: filters, and rows of live jobs and of the history in one order -------------


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
    one = job("llama-1", displayName="Llama 70B")
    assert found.match(one) is matches
    assert found.fields == query


@pytest.mark.parametrize(
    "query",
    [
        {"label": "team"},
        {"label": "a!=b"},
        {"since": "yesterday"},
        {"since": "0001-01-01T00:00+14:00"},
        {"until": "2030-02-30"},
        {"phase": "Odd"},
    ],
)
def test_a_filter_that_cannot_be_read_filters_nothing_and_the_others_do(query: dict[str, str]) -> None:
    found = filters.read({"owner": "ann", **query})
    assert list(found.wrong) == list(query)
    assert found.fields == {"owner": "ann", **query} and found.command == ""
    one, other = job("llama-1"), job("llama-2", owner="bob")
    assert found.match(one) and not found.match(other)


def test_the_last_day_there_is_has_an_end() -> None:
    assert filters.read({"until": "9999-12-31"}).wrong == {}


def test_the_command_lists_the_same() -> None:
    found = filters.read({"phase": "Failed", "owner": "ann", "label": "a=b"})
    assert found.command == "fournos list --all-time --phase Failed --owner ann -l a=b"
    assert filters.read({"text": "x"}).command == ""


@pytest.mark.parametrize("value", ["x; curl evil | sh", "$(id)", "`id`", "a'b", "x\nid", "--help", "a b"])
def test_what_an_address_holds_is_one_word_of_the_command(value: str) -> None:
    label = "a=" + "".join(character for character in value if character not in " \n()")  # no label has those
    found = filters.read({"owner": value, "cluster": value, "label": label})
    options = ["--owner", value, "--cluster", value, "-l", label]
    assert shlex.split(found.command) == ["fournos", "list", "--all-time", *options]
    lexer = shlex.shlex(found.command, posix=True, punctuation_chars=True)
    assert not {";", "|", "&", "(", ")"} & set(lexer), "nothing that a shell would obey"


def test_an_address_of_a_page_that_is_none() -> None:
    with pytest.raises(PageError):
        place_of("yesterday~1")
    assert place_of("") is None
    assert place_of("2030-01-01T00:00:00Z~uid-1") == RowPlace("2030-01-01T00:00:00Z", "uid-1")


def test_pages_show_each_job_once_in_one_order() -> None:
    """Of jobs of the same second, too, which the history orders by other values."""
    live = [job(f"live-{number}", number // 4) for number in range(23)]
    gone = [run(f"gone-{number}", number // 3) for number in range(31)]
    after, shown = None, []
    while True:
        page, after = merged(
            newest(live, filters.Filters(), after, 6), jobs.follows(gone, after, set())[:6], 5
        )
        shown += [row.name for row in page]
        if after is None:
            break
        assert len(page) == 5
    assert sorted(shown) == sorted([f"live-{n}" for n in range(23)] + [f"gone-{n}" for n in range(31)])


def test_enough_of_the_history_is_a_complete_second() -> None:
    runs = [run(f"r{number}", 9 - number // 4) for number in range(12)]
    assert jobs.is_enough(runs, runs, 8)
    assert not jobs.is_enough(runs[:9], runs[:9], 9), "the third second may have more"
    assert not jobs.is_enough(runs, runs[:3], 4)


@pytest.mark.parametrize(("at", "begins"), [(0, 0), (1, 1), (999_999, 1)])
def test_the_second_from_which_rows_are_complete(at: int, begins: int) -> None:
    assert jobs.second(BEGAN + timedelta(microseconds=at)) == f"2030-01-01T00:00:0{begins}Z"


def test_a_row_of_a_job_that_is_gone_leads_to_it_by_its_uid() -> None:
    row = recorded_row(jobs.ListRow, run("one", 0, started_at=BEGAN, ended_at=BEGAN + timedelta(seconds=200)))
    assert (row.path, row.ran, row.live) == (f"/jobs/{NS}/one?uid=uid-one", "3m20s", False)
    assert jobs.ListRow.of(job("a/b")).path == f"/jobs/{NS}/a%2Fb"


def test_shortcuts_are_filters_and_one_is_marked() -> None:
    now = datetime(2030, 1, 9, 12, tzinfo=UTC)
    mine = {each.title: each for each in filters.shortcuts("ann", now)}
    assert mine["My failed"].filters.address() == "/jobs?phase=Failed&owner=ann"
    assert mine["This week"].filters.address() == "/jobs?since=2030-01-02"
    chosen = filters.read({"phase": "Failed"})
    assert [title for title, each in mine.items() if each.chosen(chosen)] == ["Failed"]
    assert [each.title for each in filters.shortcuts("", now)] == ["All", "Active", "Failed", "This week"]


# --- Live jobs and recorded runs, for the list of jobs --------------------------------------------


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
