"""The page of the list of jobs: what it reads of the history, and where a page ends."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.values import parse_time
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.workload import LOCAL_QUEUE
from fournos.history.records import Page as RunPage
from fournos.history.records import Run, body
from fournos.web.pages import jobs
from fournos.web.rights import RUNS
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.listed import run
from tests.unit.web.page import AllRights, visit


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
