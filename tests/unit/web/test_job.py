"""The page of a job: live, gone, failed, and with parts that cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.values import parse_time
from fournos.engine.kube.errors import ForbiddenError, KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Resource
from fournos.history.artifacts import Artifact
from fournos.history.records import body
from fournos.history.results.models import Kpi, Test
from fournos.insight.children import RESOURCES
from fournos.insight.tasks import Task
from fournos.web.errors import PageError
from fournos.web.pages import job
from fournos.web.runs.reading import live_events, recorded_events
from fournos.web.runs.results import MOST, shown_results
from fournos.web.runs.timeline import attempts, lanes, recorded_tasks, waiting_lane
from tests.history import a_run as recorded_run
from tests.history import at
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import AllRights, visit
from tests.unit.web.test_job_actions import GONE, RUNS, Recording
from tests.unit.web.test_logs import a_run

TIMES = {
    "resolving": "2030-01-01T00:00:00Z",
    "pending": "2030-01-01T00:01:00Z",
    "running": "2030-01-01T00:05:00Z",
    "finished": "2030-01-01T00:25:00Z",
}
NOW = parse_time("2030-01-01T01:00:00Z")


def ended(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "one", "namespace": NS, "uid": "u", "creationTimestamp": TIMES["resolving"]},
        "spec": dict(SPEC),
        "status": {"phase": "Succeeded", "phaseTimes": TIMES, **status},
    }


# --- the timeline ---------------------------------------------------------------------


def test_lanes_of_phases_attempts_and_tasks() -> None:
    given = ended(
        attempts=[
            {"number": 1, "pipelineRun": "one", "startedAt": TIMES["pending"], "finishedAt": TIMES["running"],
             "outcome": "Failed", "message": "node lost", "cluster": "c1"},
            {"number": 2, "pipelineRun": "one-r2", "startedAt": TIMES["running"],
             "finishedAt": TIMES["finished"], "outcome": "Succeeded"},
        ]
    )  # fmt: skip
    tasks = {
        "one-r2": [
            Task("bench", "Succeeded", TIMES["running"], TIMES["finished"]),
            Task("end", "Skipped", final=True),
        ]
    }
    drawn = [
        (lane.label, lane.state, lane.length, lane.note) for lane in lanes(given, attempts(given, tasks), NOW)
    ]
    assert drawn == [
        ("Resolving", "Resolving", "1m", ""),
        ("Pending", "Pending", "4m", ""),
        ("Running", "Running", "20m", ""),
        ("Attempt 1", "Failed", "4m", "on c1 · node lost"),
        ("Attempt 2", "Succeeded", "20m", ""),
        ("bench", "Succeeded", "20m", ""),
        ("end (finally)", "Skipped", "", ""),
    ]


def test_what_never_ended_of_an_ended_job_has_no_bar() -> None:
    """A task whose end was not recorded would else go on for ever."""
    given = ended(attempts=[{"number": 1, "pipelineRun": "one", "startedAt": TIMES["running"]}])
    tasks = {"one": [Task("bench", "Running", TIMES["running"])]}
    found = [(lane.label, len(lane.bars)) for lane in lanes(given, attempts(given, tasks), NOW)]
    assert found == [("Resolving", 1), ("Pending", 1), ("Running", 1), ("Attempt 1", 0), ("bench", 0)]


def test_tasks_of_the_history() -> None:
    document = [
        {"attempt": 1, "run": "one", "tasks": [{"name": "a", "state": "Failed", "final": True, "pod": None}]}
    ]
    assert recorded_tasks(document) == {"one": [Task("a", "Failed", final=True)]}
    assert recorded_tasks(None) == {}


def test_what_a_run_waited_for_is_a_lane() -> None:
    run = recorded_run(waited_for="Quota", waited_for_text="2 x\na100", started_at=at(60))
    (lane,) = waiting_lane(run)
    (bar,) = lane.bars
    assert (bar.state, bar.start, bar.end, lane.note) == ("Quota", at(0), at(60), "Quota: 2 x a100")
    assert waiting_lane(recorded_run()) == waiting_lane(None) == []


def test_events_are_newest_first_and_tolerate_what_is_missing() -> None:
    live = live_events([
        {"metadata": {"creationTimestamp": TIMES["pending"]}, "note": "a\nb"},
        {"metadata": {}, "eventTime": "x", "series": {"count": 3, "lastObservedTime": "nonsense"}},
        {"metadata": {}, "eventTime": TIMES["finished"], "deprecatedCount": 2, "reason": "Done"},
    ])  # fmt: skip
    assert [(one.at, one.note, one.count) for one in live] == [
        (TIMES["finished"], "", 2), (TIMES["pending"], "a b", 1), ("", "", 3)
    ]  # fmt: skip
    assert recorded_events([{"at": "x"}, {"at": TIMES["pending"], "count": 4}])[0].count == 4


# --- results ---------------------------------------------------------------------


def test_results_as_tables_and_plots() -> None:
    record = Test(
        labels={"model": "<b>"},
        kpis=(
            Kpi(kpi_id="t", name="Throughput", unit="tok/s", higher_is_better=True, value=1234.5678),
            Kpi(kpi_id="c", values=((1, 2), (2, 4)), x_unit="req/s", y_unit="ms"),
        ),
    )
    found = shown_results([record] * (MOST + 2))
    assert (len(found.tests), found.left_out) == (MOST, 2)
    first = found.tests[0]
    assert [(one.title, one.value, one.better) for one in first.scalars] == [
        ("Throughput", "1234.6", "higher is better")
    ]
    assert first.curves[0].points == [("1", "2"), ("2", "4")]
    assert (first.curves[0].plot.x_title, first.curves[0].plot.y_title) == ("req/s", "ms")


# --- the page ---------------------------------------------------------------------


async def test_a_failed_job_shows_its_first_error_and_its_tasks() -> None:
    api = Api()
    await a_run(api, ["x"])
    api.set("one", "Failed", phaseTimes=TIMES, cluster="c1")
    async with visit(api) as here:
        html = await here.show(job.PAGE, name="one")
    assert "What failed" in html
    assert '<dt>Cluster</dt><dd><a href="/clusters/c1">c1</a></dd>' in html
    assert ">bench <span" in html
    assert "This cluster has no history" in html and "No results" not in html
    assert f'action="/jobs/{NS}/one/retry"' in html
    assert f'action="/jobs/{NS}/one/stop"' not in html


async def test_the_heading_does_not_repeat_the_reasons() -> None:
    api = Api()
    await a_run(api, ["x"])
    for phase, heading in (("Failed", False), ("Succeeded", True)):
        api.set("one", phase, phaseTimes=TIMES, message="1 of 3 tasks failed")
        async with visit(api) as here:
            html = await here.show(job.PAGE, name="one")
        above, _, below = html.partition('id="job-actions"')
        assert ("1 of 3 tasks failed" in above) is heading and "1 of 3 tasks failed" in below


def test_a_lock_has_no_pipeline_and_what_ran_no_empty_fields() -> None:
    lock = {"spec": {"pipeline": "fournos-full", "lockOnly": True, "cluster": "c"}}
    assert "Pipeline" not in dict(job.header({**ended(), **lock}))
    found = job.provenance({"fingerprint": {"model": "", "args": [], "gpu_count": 0, "engine": "mock"}})
    assert found == [("fingerprint.gpu_count", "0"), ("fingerprint.engine", "mock")]


async def test_a_job_that_is_gone_comes_from_the_history() -> None:
    api = Recording()
    stored = {
        "results": body((Test(kpis=(Kpi(kpi_id="tput", value=5),)),), tuple[Test, ...]),
        "artifacts": body([Artifact("a b/<i>.txt", 7, "ab" * 32, at(0))], list[Artifact]),
        "documents/provenance": json.dumps({"engine": {"sha": "c0ffee"}, "pipelineSpec": {"x": 1}}).encode(),
        "documents/tasks": json.dumps(
            [{"run": "one", "tasks": [{"name": "bench", "state": "Failed"}]}]
        ).encode(),
        "documents/events": json.dumps([{"at": TIMES["pending"], "reason": "Admitted"}]).encode(),
    }
    api.stored |= {f"{RUNS}/uid-gone/{name}": content for name, content in stored.items()}
    async with visit(api) as here:
        html = await here.show(job.PAGE, GONE, name="one")
        assert await here.show(job.PAGE, name="one") == html, "by its name, too"
    assert "the object is gone" in html
    assert "tput" in html and "c0ffee" in html and "Admitted" in html
    assert "pipelineSpec" not in html
    assert f'href="/jobs/{NS}/one/artifacts/a%20b/%3Ci%3E.txt?uid=uid-gone"' in html
    assert f'data-copy="{"ab" * 32}"' in html and f'title="{"ab" * 32}"' in html, "the whole SHA-256"
    assert f'action="/jobs/{NS}/one/forget"' in html and f'action="/jobs/{NS}/one/delete"' not in html


async def test_a_live_job_with_another_uid_is_not_shown_in_its_place() -> None:
    api = Recording()
    await api.create(
        FOURNOS_JOB, {"metadata": {"name": "one", "namespace": NS}, "spec": {**SPEC, "owner": "ben"}}
    )
    async with visit(api) as here:
        assert "the object is gone" in await here.show(job.PAGE, GONE, name="one")
        assert "the object is gone" not in await here.show(job.PAGE, name="one")


async def test_a_job_that_nothing_knows() -> None:
    async with visit(Recording()) as here:
        with pytest.raises(NotFoundError):
            await here.show(job.PAGE, name="two")
    async with visit(Api()) as here:
        with pytest.raises(PageError, match="not found") as caught:
            await here.show(job.PAGE, name="two")
    assert caught.value.status == 404


async def test_without_the_right_to_read_jobs_it_is_forbidden_not_absent() -> None:
    class Hidden:
        async def get(self, *_: object) -> Any:
            raise ForbiddenError("you may not get fournosjobs", status=403)

    async with visit(Api()) as here:
        call = here.call(name="two")
        with pytest.raises((PageError, KubeError)) as caught:
            await job.gather(replace(call, viewer=replace(call.viewer, source=Hidden())))  # type: ignore[arg-type]
    assert caught.value.status == 403


async def test_dependents_that_may_not_be_read_are_named() -> None:
    class Blind(Api):
        async def list(self, resource: Resource, **options: Any) -> Any:
            if resource == PIPELINE_RUN:
                raise ForbiddenError("no", status=403)
            return await super().list(resource, **options)

    api = Blind()
    await a_run(api, ["x"])
    async with visit(api) as here:
        assert "You may not read pipelineruns in" in await here.show(job.PAGE, name="one")


async def test_buttons_follow_the_rights() -> None:
    api = Api()
    await a_run(api, ["x"])
    async with visit(api, AllRights({"create fournosjobs", "delete fournosjobs"})) as here:
        html = await here.show(job.PAGE, name="one")
    assert "/retry" not in html and "/delete" not in html and "Resubmit" not in html


async def test_an_open_tab_does_not_ask_again_for_each_change_of_another_job() -> None:
    api = Api()
    await a_run(api, ["x"])
    async with visit(api) as here:
        await job.gather(here.call(name="one"))
        before = api.calls.total()
        await job.gather(here.call(name="one"))
        assert api.calls.total() == before
        api.set("one", "Failed", message="changed")
        await here.site.caches.change()
        await job.gather(here.call(name="one"))
        assert api.calls.total() > before


async def test_a_change_of_a_task_is_shown_and_costs_no_request_to_the_history() -> None:
    api = Api()
    await a_run(api, ["x"])
    api.set("one", "Running", pipelineRun="one", attempts=[{"number": 1, "pipelineRun": "one"}])
    async with visit(api) as here:
        call = here.call(name="one")

        async def states() -> list[str]:
            return [row.lane.state for row in (await job.gather(call))["gantt"].rows if row.lane.level]

        assert await states() == ["Running"]
        verdict = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        api.server.patch(TASK_RUN, Key(NS, "one-bench"), {"status": verdict}, subresource="status")
        before = api.calls.copy()
        assert await states() == ["Succeeded"]
        cost = api.calls - before
        assert cost["raw"] == 0 and cost.total() == len(RESOURCES) + 1


async def test_markup_in_every_text_of_a_job() -> None:
    evil = "<script>alert(1)</script>"
    api = Api()
    await api.create(
        FOURNOS_JOB,
        {
            "metadata": {"name": "one", "namespace": NS, "labels": {"a": evil}},
            "spec": {**SPEC, "owner": evil, "displayName": evil, "env": {evil: evil}, "pipeline": evil},
        },
    )
    api.set("one", "Failed", message=evil, cluster=evil, dashboardURL=f"javascript:{evil}")
    async with visit(api) as here:
        html = await here.show(job.PAGE, name="one")
    assert evil not in html and 'href="javascript:' not in html


@pytest.mark.parametrize("path", ["../secret", "a//b", "a/./b", "a\\b", "a\nb", ""])
async def test_paths_that_are_not_plain_are_no_artifacts(path: str) -> None:
    async with visit(Recording()) as here:
        with pytest.raises(PageError) as caught:
            await job.open_artifact(here.call(GONE, name="one", path=path))
    assert caught.value.status == 404
