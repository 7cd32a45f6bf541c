"""Schedules: the list, one of them, and its buttons."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.kube.errors import NoSuchResourceError
from fournos.engine.kube.resource import Key
from fournos.insight.schedules import TIMES_SHOWN, line
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TIME_LABEL, TRIGGER_ANNOTATION
from fournos.web.pages import schedules
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
