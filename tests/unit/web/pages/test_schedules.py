"""Schedules: the list, one of them, its buttons, and what its jobs measured."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.kube.errors import NoSuchResourceError
from fournos.engine.kube.resource import Key
from fournos.history.records import body
from fournos.history.results.models import RunValues, ValuePage
from fournos.insight.schedules import TIMES_SHOWN, line
from fournos.systems.schedules.names import CONFIRMS_LABEL, SCHEDULE_UID_LABEL, TIME_LABEL, TRIGGER_ANNOTATION
from fournos.web.pages import schedules
from fournos.web.pages.schedules import MOST, schedule_kpis
from tests.history import a_run, ended, measured_value
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS, job
from tests.unit.cli.schedules import schedule
from tests.unit.web.calls import READ_ONLY, call, shown
from tests.unit.web.stage import ADMIN, stage
from tests.waiting import until

PATH = {"name": "nightly"}
RESULTS = f"/apis/history.fournos.dev/v1/namespaces/{NS}/results"


def child(name: str, phase: str, time: str) -> dict[str, Any]:
    return job(name, phase, labels={SCHEDULE_UID_LABEL: "uid-nightly", TIME_LABEL: time})


async def test_a_schedule_has_its_last_fires() -> None:
    jobs = (
        child("nightly-1-0", "Succeeded", "202912310100"),
        child("nightly-1-1", "Failed", "202912310100"),
        child("nightly-2", "Running", "203001010100"),
    )
    html = await shown(schedules.PAGE, call(Api(schedule(), *jobs)))
    assert 'href="/schedules/nightly"' in html
    first, second = html.index("202912310100 UTC: Failed, 2 jobs"), html.index("203001010100 UTC: Running")
    assert first < second, "the newest mark is the last"


async def test_without_schedules_the_page_says_how_to_make_one() -> None:
    assert "fournos schedule create nightly" in await shown(schedules.PAGE, call(Api()))


async def test_an_older_installation_has_none() -> None:
    api = Api()
    api.fails["list", FOURNOS_SCHEDULE] = NoSuchResourceError("no such kind")
    assert "Schedules are not installed" in await shown(schedules.PAGE, call(api))


async def test_one_schedule_has_its_facts_times_and_jobs() -> None:
    api = Api(schedule(), child("nightly-2", "Running", "203001010100"))
    html = await shown(schedules.SCHEDULE, call(api, path=PATH))
    assert html.count("02:00+01:00") == TIMES_SHOWN
    assert 'href="/jobs/bench/nightly-2"' in html and "Europe/Berlin" in html
    assert "fournos schedule suspend -n bench nightly" in html
    assert "may not change" in await shown(schedules.SCHEDULE, call(api, path=PATH, rights=READ_ONLY))


async def test_it_shows_what_its_jobs_measured_beneath_each_other() -> None:
    runs = [measured(number, 27 + number, 100.0 + number, model="a") for number in (2, 1)]
    label = ("label", "fournos.dev/schedule=nightly")
    asked = urlencode([("phase", "Succeeded"), label, ("by", "params.model"), ("limit", "100")])
    api = Api(schedule(matrix={"params.model": ["a", "b"]}))
    api.stored = {f"{RESULTS}?{asked}": body(ValuePage(tuple(runs)), ValuePage)}
    html = await shown(schedules.SCHEDULE, call(api, path=PATH))
    assert html.index(">Jobs ") < html.index(">KPIs by fire<") < html.index("tput, times in UTC")
    assert "2026-11-29 02:00" in html and 'class="chart"' in html
    assert "KPIs by fire" not in await shown(schedules.SCHEDULE, call(Api(schedule()), path=PATH))


async def test_one_that_has_no_times_says_so() -> None:
    html = await shown(schedules.SCHEDULE, call(Api(schedule(timeZone="Mars/Base")), path=PATH))
    assert "It has no next time" in html


@pytest.mark.parametrize(
    ("name", "spec", "form", "pause"),
    [
        ("suspend schedule", {}, {"reason": "new GPUs"}, {"reason": "new GPUs", "until": None}),
        ("resume schedule", {"suspend": {"reason": "x"}}, {}, None),
    ],
)
async def test_its_buttons(name: str, spec: Any, form: Any, pause: Any) -> None:
    api = Api(schedule(**spec))
    (action,) = (action for action in schedules.ACTIONS if action.name == name)
    done = await action.act(call(api, path=PATH), form)
    assert done.location == "/schedules/nightly"
    assert api.writes[-1][-1]["spec"] == {"suspend": pause}


def test_an_ended_fire_has_the_worst_of_its_ends() -> None:
    jobs = [child("a", "Succeeded", "1"), child("b", "Stopped", "1"), child("c", "Succeeded", "2")]
    assert [mark.phase for mark in line(schedule(), jobs, NOW).marks] == ["Stopped", "Succeeded"]


async def test_open_tabs_follow_the_schedule_and_its_jobs() -> None:
    def in_stage(obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "metadata": {**obj["metadata"], "namespace": key.namespace}}

    key = Key("perf", "nightly")
    async with stage(whole=True) as site:
        site.may("ann", *ADMIN)
        await site.login()
        uid = site.server.create(FOURNOS_SCHEDULE, in_stage(schedule()))["metadata"]["uid"]
        await until(lambda: site.caches.revision([FOURNOS_SCHEDULE]) == (1,))

        async def both_show(text: str) -> bool:
            return all([text in (await site.get(path))[1] for path in ("/schedules/nightly", "/schedules")])

        assert not await both_show("203001010100 UTC: New")
        made = in_stage(child("nightly-1", "Running", "203001010100"))
        made["metadata"]["labels"][SCHEDULE_UID_LABEL] = uid
        site.server.create(FOURNOS_JOB, made)
        await until(lambda: both_show("203001010100 UTC: New"))
        site.server.patch(FOURNOS_SCHEDULE, key, {"spec": {"suspend": {"reason": "the GPUs move"}}})
        await until(lambda: both_show("the GPUs move"))
        assert "/schedules/nightly/resume" in (await site.get("/schedules/nightly"))[1]


async def test_after_a_button_the_page_waits_for_what_it_wrote() -> None:
    api = Api(schedule())
    (action,) = (action for action in schedules.ACTIONS if action.name == "suspend schedule")
    done = await action.act(call(api, path=PATH), {})
    assert done.wrote is not None
    assert (done.wrote.resource, done.wrote.obj["metadata"]["name"]) == (FOURNOS_SCHEDULE, "nightly")


async def test_run_now_asks_for_a_fire() -> None:
    api = Api(schedule())
    (action,) = (action for action in schedules.ACTIONS if action.name == "trigger schedule")
    done = await action.act(call(api, path=PATH), {})
    assert "nightly is asked for its jobs" in done.notice
    assert list(api.writes[-1][-1]["metadata"]["annotations"]) == [TRIGGER_ANNOTATION]


# --- What the jobs of a schedule measured, by fire ------------------------------------------------


AXES = ("params.model",)


def measured(
    number: int, day: int, *values: float, model: str | None = None, kpi: str = "tput", **more: Any
) -> RunValues:
    labels = {TIME_LABEL: f"202611{day:02}0200", **more.pop("run_labels", {})}
    run = ended(a_run(number, labels=labels))
    found = tuple(measured_value(kpi, value, "tok/s", True, **more) for value in values)
    return RunValues(run, found, {"params.model": model})


def test_each_fire_is_a_point_and_each_job_of_the_matrix_a_line() -> None:
    runs = [
        measured(4, 29, 40, model="b"),
        measured(3, 29, 30, model="a"),
        measured(2, 28, 20, model="b"),
        measured(1, 28, 10, 14, model="a"),
    ]
    (plot,) = schedule_kpis(runs, AXES).plots
    assert plot.labels == ["2026-11-28 02:00", "2026-11-29 02:00"]
    assert {line.name: list(line.points) for line in plot.lines} == {
        "model=a": [(0.0, 12.0), (1.0, 30.0)],
        "model=b": [(0.0, 20.0), (1.0, 40.0)],
    }
    assert (plot.y_title, plot.runs) == ("tok/s", ())


def test_a_single_job_a_fire_is_one_line_and_its_points_lead_to_the_runs() -> None:
    runs = [measured(2, 29, 20, labels={"version": "2"}), measured(1, 28, 10, labels={"version": "1"})]
    (plot,) = schedule_kpis(runs, ()).plots
    assert [line.name for line in plot.lines] == ["tput"]
    assert [run.name for run in plot.runs] == ["job-1", "job-2"]


def test_labels_of_tests_are_lines_of_their_own_and_only_some_are_drawn() -> None:
    runs = [measured(number, 28, 1.0, labels={"users": str(number)}) for number in range(10)]
    (plot,) = schedule_kpis(runs, ()).plots
    assert len(plot.lines) == 8 and "8 of 10 series" in plot.title
    assert plot.lines[1].name == "users=1"


def test_failed_tests_reruns_and_other_jobs_do_not_count() -> None:
    other = RunValues(ended(a_run(3)), (measured_value("tput", 1.0),))
    rerun = measured(2, 28, 20, run_labels={CONFIRMS_LABEL: "uid"})
    assert schedule_kpis([measured(1, 28, 10, success=False), rerun, other], ()).plots == ()


def test_further_kpis_are_counted() -> None:
    shown = schedule_kpis([measured(n, 28, 1.0, kpi=f"kpi-{n:02}") for n in range(MOST + 2)], ())
    assert (len(shown.plots), shown.more) == (MOST, 2)
