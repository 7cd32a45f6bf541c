"""The page of a job, and what its buttons do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.client.errors import FournosError
from fournos.engine.api.values import parse_time
from fournos.engine.kube.errors import ForbiddenError, KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Resource
from fournos.history.api.comparisons import Trends
from fournos.history.artifacts import Artifact
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Detail, KeepMark, body
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import Baseline
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Kpi, Test, series_id
from fournos.insight.children import RESOURCES, Task
from fournos.web.errors import PageError
from fournos.web.pages import job
from fournos.web.pages import job as actions
from fournos.web.pages.job import offers
from fournos.web.runs.reading import live_events, recorded_events
from fournos.web.runs.results import NOTHING, KpiCourse, courses, curve
from fournos.web.runs.subject import JobSubject
from fournos.web.runs.timeline import lanes, recorded_tasks, waiting_lane
from tests.history import a_run as stored_run
from tests.history import at, keep_logs
from tests.history import ended as ended_run
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import AllRights, show, visit
from tests.unit.web.pages.test_logs import a_run

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
    drawn = [(lane.label, lane.state, lane.length, lane.note) for lane in lanes(given, tasks, NOW)]
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
    found = [(lane.label, int(lane.start is not None)) for lane in lanes(given, tasks, NOW)]
    assert found == [("Resolving", 1), ("Pending", 1), ("Running", 1), ("Attempt 1", 0), ("bench", 0)]


def test_tasks_of_the_history() -> None:
    document = [
        {"attempt": 1, "run": "one", "tasks": [{"name": "a", "state": "Failed", "final": True, "pod": None}]}
    ]
    assert recorded_tasks(document) == {"one": [Task("a", "Failed", final=True)]}
    assert recorded_tasks(None) == {}


def test_what_a_run_waited_for_is_a_lane() -> None:
    run = stored_run(waited_for="Quota", waited_for_text="2 x\na100", started_at=at(60))
    (lane,) = waiting_lane(run)
    assert (lane.start, lane.end, lane.note) == (at(0), at(60), "Quota: 2 x a100")
    assert waiting_lane(stored_run()) == waiting_lane(None) == []


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


def test_a_curve_is_plotted_with_its_units() -> None:
    plot = curve(Kpi(kpi_id="c", values=((1, 2), (2, 4)), x_unit="req/s", y_unit="ms"))
    assert (plot.title, plot.x_title, plot.y_title) == ("c", "req/s", "ms")


# --- the page ---------------------------------------------------------------------


async def test_a_failed_job_shows_its_first_error_and_its_tasks() -> None:
    api = await a_run(["x"])
    api.set("one", "Failed", phaseTimes=TIMES, cluster="c1")
    html = await show(api, job.PAGE, name="one")
    assert "What failed" in html
    assert '<dt>Cluster</dt><dd><a href="/clusters/c1">c1</a></dd>' in html
    assert ">bench <span" in html
    assert "This cluster has no history" in html and "No results" not in html
    assert f'action="/jobs/{NS}/one/retry"' in html
    assert f'action="/jobs/{NS}/one/stop"' not in html


async def test_a_job_without_a_cluster_has_no_link_to_one() -> None:
    api = await a_run(["x"])
    api.set("one", "Succeeded", phaseTimes=TIMES, cluster="[clusterless]")
    assert "<dt>Cluster</dt><dd>[clusterless]</dd>" in await show(api, job.PAGE, name="one")


async def test_the_heading_does_not_repeat_the_reasons() -> None:
    api = await a_run(["x"])
    for phase, heading in (("Failed", False), ("Succeeded", True)):
        api.set("one", phase, phaseTimes=TIMES, message="1 of 3 tasks failed")
        html = await show(api, job.PAGE, name="one")
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
    await a_run(["x"], api)
    assert "You may not read pipelineruns in" in await show(api, job.PAGE, name="one")


async def test_buttons_follow_the_rights() -> None:
    api = await a_run(["x"])
    html = await show(
        api, job.PAGE, name="one", rights=AllRights({"create fournosjobs", "delete fournosjobs"})
    )
    assert "/retry" not in html and "/delete" not in html and "Resubmit" not in html


async def test_an_open_tab_does_not_ask_again_for_each_change_of_another_job() -> None:
    api = await a_run(["x"])
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
    api = await a_run(["x"])
    api.set("one", "Running", pipelineRun="one", attempts=[{"number": 1, "pipelineRun": "one"}])
    async with visit(api) as here:
        call = here.call(name="one")

        async def states() -> list[str]:
            return [lane.state for lane, _ in (await job.gather(call))["gantt"].rows if lane.level]

        assert await states() == ["Running"]
        verdict = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        api.server.patch(TASK_RUN, Key(NS, "one-bench"), {"status": verdict}, subresource="status")
        before = api.calls.copy()
        assert await states() == ["Succeeded"]
        cost = api.calls - before
        # Its children, its events, and those of its pod.
        assert cost["raw"] == 0 and cost.total() == len(RESOURCES) + 2


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
    html = await show(api, job.PAGE, name="one")
    assert evil not in html and 'href="javascript:' not in html


@pytest.mark.parametrize("path", ["../secret", "a//b", "a/./b", "a\\b", "a\nb", ""])
async def test_paths_that_are_not_plain_are_no_artifacts(path: str) -> None:
    async with visit(Recording()) as here:
        with pytest.raises(PageError) as caught:
            await job.open_artifact(here.call(GONE, name="one", path=path))
    assert caught.value.status == 404


# --- The buttons of a job: what they change, and what they refuse ---------------------------------


RUNS = f"/apis/history.fournos.dev/v1/namespaces/{NS}/runs"
ALL = {"stop", "hold", "unhold", "retry", "delete", "keep", "release", "forget"}


async def a_job(phase: str = "Running") -> tuple[Api, dict[str, str]]:
    """Returns where it is, and the form of a button on its page."""
    api = Api()
    await api.create(
        FOURNOS_JOB, {"metadata": {"name": "one", "namespace": NS}, "spec": {**SPEC, "owner": "ann"}}
    )
    api.set("one", phase)
    return api, {"uid": api.job("one")["metadata"]["uid"]}


async def act(api: Api, action: Any, form: dict[str, str]) -> Any:
    async with visit(api) as here:
        return await action(here.call(name="one"), form)


async def test_stop_writes_shutdown() -> None:
    api, form = await a_job()
    done = await act(api, actions.stop, form)
    assert (done.location, api.job("one")["spec"]["shutdown"]) == (f"/jobs/{NS}/one", "Stop")
    assert done.notice == "one: stopping, its finally tasks run."
    await act(api, actions.stop, {**form, "now": "yes"})
    assert api.job("one")["spec"]["shutdown"] == "Terminate"


async def test_a_job_is_held_and_released() -> None:
    api, form = await a_job("Pending")
    done = await act(api, actions.hold, form)
    assert (done.notice, api.job("one")["spec"]["suspend"]) == ("one is held: it leaves the queue.", True)
    done = await act(api, actions.unhold, form)
    assert (done.location, api.job("one")["spec"]["suspend"]) == (f"/jobs/{NS}/one", False)


async def test_delete_deletes_that_job() -> None:
    api, form = await a_job()
    assert (await act(api, actions.delete, form)).location == "/jobs"
    assert api.server.find(FOURNOS_JOB, Key(NS, "one")) is None


@pytest.mark.parametrize("action", [actions.stop, actions.delete, actions.retry])
async def test_another_job_of_the_same_name_is_left_alone(action: Any) -> None:
    api, _ = await a_job("Failed")
    before = api.job("one")
    with pytest.raises((PageError, FournosError, KubeError)):
        await act(api, action, {"uid": "of-an-earlier-job"})
    assert api.job("one") == before
    assert len(api.server.list(FOURNOS_JOB)) == 1


async def test_retry_submits_the_spec_of_an_ended_job() -> None:
    api, form = await a_job("Failed")
    done = await act(api, actions.retry, form)
    name = done.location.rpartition("/")[2]
    assert api.job(name)["spec"] == api.job("one")["spec"]
    assert "is submitted with the spec of one" in done.notice


async def test_retry_of_a_job_that_runs_is_refused() -> None:
    api, form = await a_job()
    with pytest.raises(PageError, match="has not ended"):
        await act(api, actions.retry, form)


def about(spec: dict[str, Any], phase: str = "Running", *, live: bool = True) -> JobSubject:
    meta = {"name": "one", "namespace": NS, "uid": "u1", "creationTimestamp": "2030-01-01T00:00:00Z"}
    return JobSubject({"metadata": meta, "spec": spec, "status": {"phase": phase}}, live)


# --- the history ---------------------------------------------------------------------


class Recording(Api):
    """Has one run, which is gone, and notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, str, Any]] = []
        run = ended_run(stored_run(1, name="one"))
        self.run = replace(run, identity=replace(run.identity, namespace=NS, uid="uid-gone"))
        raw = about({**SPEC, "owner": "ann"}, "Succeeded").raw
        raw = {**raw, "metadata": {**raw["metadata"], "uid": "uid-gone"}}
        self.stored = {f"{RUNS}/uid-gone/documents/object": json.dumps(raw).encode()}
        self.keep(None)

    def keep(self, mark: KeepMark | None) -> None:
        detail = body(Detail(self.run, kept=mark), Detail)
        for asked in ("uid-gone", "uid-gone?kind=FournosJob", "one?kind=FournosJob"):
            self.stored[f"{RUNS}/{asked}"] = detail

    async def raw(self, method: str, path: str, *given: Any, **more: Any) -> bytes:
        if method != "GET":
            self.written.append((method, path, given[0] if given else None))
            return b""
        return await super().raw(method, path, *given, **more)


GONE = {"uid": "uid-gone"}


async def test_keep_release_and_delete_in_the_history() -> None:
    api = Recording()
    await act(api, actions.keep, {**GONE, "reason": "baseline"})
    await act(api, actions.release, GONE)
    await act(api, actions.forget, GONE)
    assert api.written == [
        ("PUT", f"{RUNS}/uid-gone/keep", {"reason": "baseline"}),
        ("DELETE", f"{RUNS}/uid-gone/keep", None),
        ("DELETE", f"{RUNS}/uid-gone", None),
    ]


async def test_a_mark_of_keep_is_shown_and_can_be_taken_away() -> None:
    api = Recording()
    async with visit(api) as here:
        html = await here.show(job.PAGE, {"uid": "uid-gone"}, name="one")
        assert "one/keep" in html and "one/release" not in html and "Kept by" not in html
        api.keep(KeepMark("ann", at(0), "v1 <release>"))
        here.site.memo.clear()  # as the server does after a write
        html = await here.show(job.PAGE, {"uid": "uid-gone"}, name="one")
        assert "one/keep" not in html and "one/release" in html
        assert "Kept by ann" in html and "v1 &lt;release&gt;" in html


async def test_a_job_that_is_gone_is_retried_from_the_history() -> None:
    api = Recording()
    done = await act(api, actions.retry, GONE)
    assert api.job(done.location.rpartition("/")[2])["spec"] == {**SPEC, "owner": "ann"}


async def test_a_job_that_is_gone_is_not_stopped() -> None:
    with pytest.raises(PageError, match="is gone"):
        await act(Recording(), actions.stop, GONE)


# --- which buttons are shown ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        (about({}), ["Stop", "Stop now", "Hold", "Keep", "Let expire", "Delete"]),
        (about({"suspend": True}), ["Stop", "Stop now", "Release", "Keep", "Let expire", "Delete"]),
        (about({"shutdown": "Stop"}, "Stopping"), ["Stop now", "Keep", "Let expire", "Delete"]),
        (about({"shutdown": "Terminate"}, "Stopping"), ["Keep", "Let expire", "Delete"]),
        (about({}, "Failed"), ["Retry", "Keep", "Let expire", "Delete"]),
        (about({}, "Failed", live=False), ["Retry", "Keep", "Let expire", "Delete from the history"]),
    ],
)
def test_buttons_by_state(subject: JobSubject, shown: list[str]) -> None:
    assert [one.label for one in offers(subject, ALL)] == shown


def test_buttons_without_the_right_are_not_shown() -> None:
    assert [one.label for one in offers(about({}), {"delete"})] == ["Delete"]
    assert [one.name for one in offers(about({}, "Failed"), set())] == []


def test_the_command_is_quoted() -> None:
    raw = about({}).raw
    raw = {**raw, "metadata": {**raw["metadata"], "name": "a; rm -rf /"}}
    assert offers(JobSubject(raw, live=True), ALL)[0].command == f"fournos stop -n {NS} 'a; rm -rf /'"


# --- The page of a job that failed: the line of the log that shows why ----------------------------


async def a_failed_task(lines: list[str]) -> Api:
    api = await a_run(lines)
    verdict = {
        "type": "Succeeded",
        "status": "False",
        "reason": "Failed",
        "message": '"step-run" exited with code 1',
    }
    bench = Key(NS, "one-bench")
    status = {"podName": "one-bench-pod", "completionTime": TIMES["finished"], "conditions": [verdict]}
    api.server.patch(TASK_RUN, bench, {"status": status}, subresource="status")
    api.set("one", "Failed", phaseTimes=TIMES, message="Tasks Completed: 1 (Failed: 1)")
    return api


async def test_what_failed_begins_with_the_error_of_the_task_itself() -> None:
    api = await a_failed_task(["ok", "RuntimeError: <no> GPU", "bye"])
    async with visit(api) as here:
        html = (await here.show(job.PAGE, name="one")).split("What failed")[1].split("Timeline")[0]
    assert html.index("RuntimeError: &lt;no&gt; GPU") < html.index("exited with code 1")
    assert html.index("exited with code 1") < html.index("Tasks Completed: 1")
    assert html.count("exited with code 1") == 1, "the reasons repeat the error"


async def test_what_failed_is_the_line_that_the_history_has_found() -> None:
    api = await a_failed_task(["another line"])
    uid = api.job("one")["metadata"]["uid"]
    log = ContainerLog("pod", "u", "step-run", "bench", 1, 0, at(0), at(9), 1, 9, False, 7, "fatal: x")
    keep_logs(api.stored, f"{RUNS}/{uid}", {log: ""})
    async with visit(api) as here:
        html = (await here.show(job.PAGE, name="one")).split("What failed")[1].split("Timeline")[0]
    assert html.index("fatal: x") < html.index("exited with code 1")
    assert "another line" not in html


async def test_an_open_tab_looks_for_the_failing_line_once() -> None:
    api = await a_failed_task(["RuntimeError: first"])
    async with visit(api) as here:
        for _ in range(2):
            data = await job.PAGE.gather(here.call(name="one"))
            assert data["error_line"] == "RuntimeError: first"
            api.server.logs[Key(NS, "one-bench-pod")] = ["RuntimeError: other"]


# --- The KPIs of a run beside the run before it and the baseline ----------------------------------


NS = "bench"
KPI = Kpi(kpi_id="tput", value=1, unit="tok/s", higher_is_better=True)
RECORD = Test(labels={"m": "x"}, kpis=(KPI,))


def of(number: int) -> str:
    return f"here/{NS}/u{number}"


def trends(*values: float, **fields: Any) -> Trends:
    points = tuple(Point(of(number), at(number * 3600), value) for number, value in enumerate(values))
    newest, uid = stored_run(len(values) - 1, fingerprint="f"), f"u{len(values) - 1}"
    series = (Series(series_id("f", RECORD, KPI), "tput", points, "tok/s", True, {"m": "x"}),)
    run = replace(newest, identity=replace(newest.identity, cluster="here", namespace=NS, uid=uid))
    return Trends(run, series, judge(series), (), **fields)


STEP = [100.0 + number % 3 for number in range(20)] + [80.0 + number % 3 for number in range(8)]


def course(found: Trends, number: int) -> KpiCourse:
    shown = courses(found, of(number), NS).of(RECORD, KPI)
    assert shown is not None
    return shown


def test_a_run_is_compared_with_the_one_before_it() -> None:
    found = courses(trends(*STEP), of(20), NS)
    assert found.compare_before == "/compare?job=bench/u19&job=bench/u20"
    assert course(trends(*STEP), 20).before == "-20.8% from 101 tok/s"
    assert course(trends(*STEP), 20).state == "Regression confirmed", "it began with this run"
    assert course(trends(*STEP), 22).state == "", "the newest run has the state of the series"
    assert course(trends(*STEP), 27).state.startswith("Regression confirmed -19")
    assert course(trends(*STEP), 27).trend == "/trends/bench/u27?kpi=tput"


def test_and_with_the_baseline() -> None:
    plain = trends(*STEP)
    pinned = replace(plain.run, identity=replace(plain.run.identity, uid="u3"))
    values = {plain.series[0].id: 50.0}
    found = replace(plain, baseline=Baseline(pinned, at(0), "ann", ""), baseline_values=values)
    assert course(found, 0).baseline == "+100.0% from 50 tok/s"
    assert courses(found, of(0), NS).compare_baseline == "/compare?job=bench/u3&job=bench/u0"
    assert course(found, 3).baseline == "" and courses(found, of(3), NS).compare_baseline == ""


def test_a_first_run_and_one_that_is_no_point() -> None:
    assert course(trends(5.0), 0).before == ""
    assert courses(trends(5.0), of(0), NS).compare_before == ""
    assert courses(trends(5.0), of(7), NS).of(RECORD, KPI) is None
    assert courses(None, of(0), NS) == NOTHING


def test_the_results_have_the_course_of_each_kpi() -> None:
    found = courses(trends(4.0, 5.0), of(1), NS).of(RECORD, KPI)
    assert found is not None and found.before == "+25.0% from 4 tok/s"
