"""What is announced: each verdict once, whatever is calculated anew; and the words of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.events import MAX_NOTE
from fournos.history.alerts.news import (
    SHOWN,
    Announced,
    News,
    NewsContext,
    body,
    due,
    event,
    note,
)
from fournos.history.records import Identity
from fournos.history.regressions.judge import Report, judge
from fournos.history.regressions.review import Acknowledgement, SeriesReview
from fournos.history.regressions.series import Kind, Point, Series
from tests.history import a_run
from tests.unit.cli.test_stored import run

NOW = datetime(2026, 1, 20, tzinfo=UTC)
RUN = replace(run("newest"), identity=Identity("c", "bench", "newest"), namespace_uid="uid", fingerprint="f")
QUIET = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 100.8, 99.2, 100.1, 99.9, 100.4, 99.6]


def series(*after: float, name: str = "tput", better: bool | None = True) -> Series:
    """The newest value is of an hour ago; there is one each hour."""
    values = [*QUIET, *after]
    points = tuple(
        Point(f"c/n/{index}", NOW - timedelta(hours=len(values) - index), value)
        for index, value in enumerate(values)
    )
    return Series(name, name, points, "s", better)


def judged(*found: Series, known: tuple[Acknowledgement, ...] = ()) -> SeriesReview:
    return SeriesReview(RUN, found, judge(found), known)


def announced(*sent: News) -> list[Announced]:
    return [
        Announced(change.series, change.run, change.at, change.rises, NOW)
        for news in sent
        for change in news.changes
    ]


DROP = (60.0, 60.5, 59.5, 60.2, 60.1)


@pytest.mark.parametrize(
    ("better", "kind"), [(True, Kind.REGRESSION), (False, Kind.IMPROVEMENT), (None, Kind.CHANGE)]
)
def test_a_confirmed_change_is_due_with_the_run_before(better: bool | None, kind: Kind) -> None:
    (news,) = due(judged(series(*DROP, better=better)), [], NOW)
    assert (news.kind, news.run, news.before) == (kind, "c/n/12", "c/n/11")


def test_a_suspicion_is_not_due() -> None:
    assert judge([series(60.0)]).findings
    assert due(judged(series(60.0)), [], NOW) == []


def test_kpis_of_one_cause_are_one_message() -> None:
    (news,) = due(judged(series(*DROP), series(*DROP, name="other")), [], NOW)
    assert {one.kpi_id for one in news.changes} == {"tput", "other"}


def test_what_was_sent_is_not_sent_again_when_later_runs_move_it() -> None:
    (sent,) = due(judged(series(*DROP)), [], NOW)
    assert due(judged(series(*DROP)), announced(sent), NOW) == []
    (later,) = judge([series(*DROP, 60.3, 60.0)]).findings
    place = [point.run for point in series(*DROP, 60.3, 60.0).points].index(later.run) + 1
    moved = replace(later, run=f"c/n/{place}", at=later.at + timedelta(hours=1))
    whole = judged(series(*DROP, 60.3, 60.0))
    known = [replace(one, at=later.at) for one in announced(sent)]
    assert due(replace(whole, report=Report((moved,))), known, NOW) == []


def test_a_further_change_and_the_way_back_are_announced() -> None:
    (sent,) = due(judged(series(*DROP)), [], NOW)
    further = series(*DROP, 30.0, 30.2, 29.8, 30.1, 30.0)
    known = [replace(one, at=further.points[12].at) for one in announced(sent)]
    (news,) = due(judged(further), known, NOW)
    assert (news.kind, news.run) == (Kind.REGRESSION, "c/n/17")
    back = series(*DROP, 100.0, 100.2, 99.8, 100.1, 100.0)
    known = [replace(one, at=back.points[12].at) for one in announced(sent)]
    (news,) = due(judged(back), known, NOW)
    assert (news.kind, news.run) == (Kind.IMPROVEMENT, "c/n/17")


def test_what_is_acknowledged_or_old_is_not_due() -> None:
    bad = series(*DROP)
    (finding,) = judge([bad]).findings
    assert due(judged(bad, known=(Acknowledgement.of(finding, "meant", "me", NOW),)), [], NOW) == []
    assert due(judged(bad), [], NOW + timedelta(days=15)) == []


# --- the message ------------------------------------------------------------------------------------------


def drop(better: bool | None = True) -> News:
    (news,) = due(judged(series(*DROP, better=better)), [], NOW)
    return news


def of(news: News, context: NewsContext | None = None) -> dict[str, Any]:
    run = a_run(1, identity=Identity("c", "n", "12"), owner="alice", target="gpu-1")
    found = context or NewsContext(run, a_run(0), ("image a -> b",))
    result: dict[str, Any] = json.loads(body(news, found))
    return result


def test_a_message_links_to_the_page_where_its_address_is_known() -> None:
    found: dict[str, Any] = json.loads(body(drop(), NewsContext(None), page="https://fournos.example.com/"))
    address = f"https://fournos.example.com/trends/{found['fournos']['run']['namespace']}/"
    assert found["fournos"]["page"].startswith(address) and address in found["text"]
    assert of(drop())["fournos"]["page"] == ""


def test_what_changed_whose_run_it_is_and_how_to_look() -> None:
    data = of(drop())
    found, name = data["fournos"], a_run(1).name
    assert found["state"] == "Confirmed"
    assert found["run"] == {
        "name": name, "uid": "12", "namespace": "n", "cluster": "gpu-1", "clusterId": "c", "owner": "alice",
    }  # fmt: skip
    (change,) = found["changes"]
    assert (change["kpi"], change["direction"], change["state"]) == ("tput", "falls", "Confirmed")
    assert -42 < change["changePercent"] < -38
    assert change["comparedRuns"] == len(QUIET)
    assert found["causes"] == ["image a -> b"]
    assert found["commands"] == [
        f"fournos compare -n n {a_run(0).name} {name}", f"fournos trend -n n {name}",
    ]  # fmt: skip
    assert data["text"].startswith(f"Regression confirmed in n, since {name} (owner alice, cluster gpu-1)\n")
    assert "worse" in data["text"]
    assert found["commands"][0] in data["text"]


def test_a_run_that_has_expired_has_its_uid() -> None:
    found = of(drop(), NewsContext(None))["fournos"]
    assert (found["run"]["name"], found["run"]["owner"]) == ("12", "")
    assert found["commands"] == ["fournos trend -n n 12"]


def test_names_mention_no_person_and_add_no_lines() -> None:
    run = a_run(1, owner="<!channel> & co\n* forged")
    data = of(drop(), NewsContext(run))
    assert "<!channel>" not in data["text"]
    assert "&lt;!channel&gt; &amp; co * forged" in data["text"]


def test_secrets_are_hidden_and_the_size_is_bounded() -> None:
    news = drop()
    (change,) = news.changes
    token = "ghp_" + "a1B2" * 9
    many = tuple(
        replace(
            change,
            kpi_id=f"kpi-{number}" + "x" * 10_000,
            labels={"token": token, **{f"k{index}": "v" * 10_000 for index in range(64)}},
        )
        for number in range(500)
    )
    content = body(
        replace(news, changes=many), NewsContext(a_run(1, owner=f"token {token}"), None, ["c" * 9000] * 99)
    )
    assert token.encode() not in content
    assert len(content) < 300_000
    assert json.loads(content)["fournos"]["more"] == 500 - SHOWN


# --- the Event ----------------------------------------------------------------------------------------

JOB: Obj = {"metadata": {"namespace": "n", "name": "job-1", "uid": "12"}}
CONTEXT = NewsContext(a_run(1, identity=Identity("c", "n", "12")), a_run(0))


@pytest.mark.parametrize(
    ("better", "type_", "reason"),
    [
        (True, "Warning", "RegressionConfirmed"),
        (False, "Normal", "ImprovementConfirmed"),
        (None, "Normal", "ChangeConfirmed"),
    ],
)
def test_an_event_has_what_changed_and_how_to_look(better: bool | None, type_: str, reason: str) -> None:
    made: dict[str, Any] = event(drop(better), CONTEXT, FOURNOS_JOB, JOB, NOW, "pod-0")
    assert (made["type"], made["reason"]) == (type_, reason)
    assert made["regarding"] == {
        "apiVersion": FOURNOS_JOB.api_version, "kind": "FournosJob", "namespace": "n", "name": "job-1",
        "uid": "12",
    }  # fmt: skip
    assert (made["metadata"]["namespace"], made["reportingInstance"]) == ("n", "pod-0")
    assert "tput: -40." in made["note"]
    assert f"compared with {len(QUIET)} earlier runs" in made["note"]
    assert made["note"].endswith("See: fournos compare -n n job-0 job-1")


def test_the_name_of_an_event_is_the_same_each_time_and_valid() -> None:
    name = event(drop(), CONTEXT, FOURNOS_JOB, JOB, NOW, "pod-0")["metadata"]["name"]
    assert name == event(drop(), CONTEXT, FOURNOS_JOB, JOB, NOW.replace(day=21), "pod-1")["metadata"]["name"]
    long: Obj = {"metadata": {**JOB["metadata"], "name": f"{'x' * 199}-y"}}
    made = event(drop(), CONTEXT, FOURNOS_JOB, long, NOW, "pod-0")["metadata"]["name"]
    assert made.startswith(f"{'x' * 199}.")


def test_the_command_is_there_however_many_kpis_changed() -> None:
    news = drop()
    many = tuple(replace(news.changes[0], kpi_id=f"kpi-{number}") for number in range(5))
    assert "; and 2 more KPIs. See: fournos compare" in note(replace(news, changes=many), CONTEXT)
    huge = tuple(replace(one, kpi_id="k" * 900, labels={"l": "v" * 900}) for one in many)
    text = note(replace(news, changes=huge), CONTEXT)
    assert len(text) == MAX_NOTE
    assert text.endswith("…. See: fournos compare -n n job-0 job-1")
